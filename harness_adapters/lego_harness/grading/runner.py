"""Runs hidden tests inside a grading sandbox and reports over a protocol. Stands alone: stdlib + pytest.

    host ──jobs line, nonce line──▶ parent ──fork──▶ child: pytest over hidden tests + canaries
    host ◀──nonce + one JSON line── parent ◀──pipe── child

The parent never imports a line of the agent's; it reads the nonce only after the last child ended, so
no code under test can know it or write to the parent's output. The child can be lied to by the code it
runs; canaries that must fail, and a check that pytest's own code is what it was, show that it was not.
Invariant: READY is printed before any code under test runs, so that its absence is our own failure.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

READY = "lego-runner ready"
ODD_EXIT = 93
"""How a child ends that reported; code under test that calls `os._exit` does not know it."""
CANARIES = (
    "def test_{name}():\n    assert {small} + {small} == {large}\n",
    "import pytest\n\ndef test_{name}():\n    with pytest.raises(ValueError):\n        int('{small}')\n",
    "import unittest\n\nclass Test_{name}(unittest.TestCase):\n"
    "    def test_{name}(self):\n        self.assertEqual({small}, {large})\n",
    "def test_{name}():\n    raise RuntimeError('{large}')\n",
)
_PR_SET_DUMPABLE = 4
_MAX_REPORT = 4_000_000
_GUARDED = {"pytest", "_pytest", "pluggy", "unittest", "builtins", "json", "operator", "__main__"}
_PYTEST = ["-q", "-c", "/dev/null", "--noconftest", "-p", "no:cacheprovider", "--tb=line", "-W", "ignore"]
Fingerprint = dict[tuple[str, ...], tuple[object, object]]


def main() -> None:
    """`runner.py TOOLCHAIN`, jobs and nonce on stdin."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [sys.argv[1], *(path for path in sys.path if path not in ("", here))]
    _import_pytest()
    jobs = json.loads(_read_line(0))
    _set_dumpable(0)  # /proc of this process is closed to the children from here on
    _say(READY)
    verdicts = [_run_job(job) for job in jobs]
    nonce = _read_line(0).decode().strip()
    _say(nonce + json.dumps(verdicts))


def _import_pytest() -> None:
    """All of pytest's own plugins are loaded now, from the toolchain."""
    from _pytest.config import get_config

    get_config()._ensure_unconfigure()  # pyright: ignore[reportPrivateUsage]


def _read_line(fd: int) -> bytes:
    """One line, byte by byte: what follows stays in the pipe, out of the children's memory."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(fd, 1)
        if not byte:
            sys.exit("the grader's input ended early")
        line += byte
    return line


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _set_dumpable(value: int) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, value, 0, 0, 0)


# --- the parent --------------------------------------------------------------------------------


def _run_job(job: dict[str, Any]) -> dict[str, Any]:
    """{tests, workspace, timeout_s, tree?} → {tests, messages, canaries, ending}."""
    if job["tree"]:
        _take_over(Path(job["tree"]), Path(job["workspace"]))
    bait, names = _plant_canaries()
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        _run_child(job, bait, sending)
    os.close(sending)
    raw, in_time = _collect(receiving, child, job["timeout_s"])
    if not in_time:
        os.kill(child, signal.SIGKILL)
    os.close(receiving)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    shutil.rmtree(bait, ignore_errors=True)
    return _judge(raw, in_time, status, names)


def _take_over(tree: Path, workspace: Path) -> None:
    """Empty the workspace and fill it from `tree`; for batches of trusted trees."""
    for path in workspace.iterdir():
        if tree.is_relative_to(path):  # the batch itself lies there
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    shutil.copytree(tree, workspace, dirs_exist_ok=True)


def _plant_canaries() -> tuple[Path, list[str]]:
    """A folder of tests that must fail, under names nobody can know beforehand, and the names."""
    dice = random.SystemRandom()
    folder = Path(f"/tmp/t{dice.getrandbits(40):x}")
    folder.mkdir()
    names: list[str] = []
    for text in CANARIES:
        small, name = dice.randrange(2, 99), f"{dice.getrandbits(40):x}"
        (folder / f"test_{name}.py").write_text(text.format(name=name, small=small, large=2 * small + 1))
        names.append(name)
    return folder, names


def _collect(pipe: int, child: int, timeout_s: float) -> tuple[bytes, bool]:
    """What the child reported, and whether it ended in time; a grandchild may hold the pipe open."""
    os.set_blocking(pipe, False)
    raw, watched = b"", [pipe, ended := os.pidfd_open(child)]
    deadline = time.monotonic() + timeout_s
    while ready := select.select(watched, [], [], max(0.0, deadline - time.monotonic()))[0]:
        try:
            chunk = os.read(pipe, 65536)
        except BlockingIOError:
            chunk = b""
        raw += chunk[: _MAX_REPORT - len(raw)]
        if not chunk:
            watched = [ended]
            if ended in ready:
                break
    os.close(ended)
    return raw, bool(ready)


def _judge(raw: bytes, in_time: bool, status: int, names: list[str]) -> dict[str, Any]:
    """A report is one only when it tells of every canary: who forges it does not know their names."""
    silent: dict[str, Any] = {"tests": {}, "messages": {}, "canaries": 0}
    if not in_time:
        return {**silent, "ending": "the tests ran into their time limit"}
    if status != ODD_EXIT:
        return {**silent, "ending": f"the test process ended early (exit {status})"}
    try:
        report = json.loads(raw)
        tests, messages, ending = dict(report["tests"]), dict(report["messages"]), str(report["ending"])
    except (ValueError, KeyError, TypeError):
        return {**silent, "ending": "the test process did not report"}
    failed = sum(
        any(name in test and outcome == "failed" for test, outcome in tests.items()) for name in names
    )
    return {
        "tests": {
            test: outcome for test, outcome in tests.items() if not any(name in test for name in names)
        },
        "messages": {
            test: text for test, text in messages.items() if not any(name in test for name in names)
        },
        "canaries": failed,
        "ending": ending,
    }


# --- the child ---------------------------------------------------------------------------------


def _run_child(job: dict[str, Any], bait: Path, pipe: int) -> NoReturn:
    """Run pytest, report through `pipe`, end oddly."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    _set_dumpable(1)
    os.chdir(job["workspace"])
    sys.path.append(job["workspace"])
    before, record = _fingerprint(), Record()
    _run_pytest(Path(job["tests"]), bait, record)
    report = json.dumps(record.report(tampered=_is_tampered(before))).encode()
    while report:
        report = report[os.write(pipe, report) :]
    os._exit(ODD_EXIT)


def _run_pytest(tests: Path, bait: Path, record: Record) -> None:
    import pytest

    canaries = sorted(str(path) for path in bait.iterdir())
    half = len(canaries) // 2
    files = [*canaries[:half], *_hidden_tests(tests), *canaries[half:]]
    pytest.main([*_PYTEST, "--continue-on-collection-errors", f"--rootdir={tests}", *files], plugins=[record])


def _hidden_tests(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        if path.stem.startswith("test_") or path.stem.endswith("_test"):
            yield str(path)


class Record:
    """A pytest plugin: the outcome of each test over its set-up, call and tear-down."""

    def __init__(self) -> None:
        self._outcomes: dict[str, str] = {}
        self._messages: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test has passed when its call passed and nothing failed around it."""
        test, passed = report.nodeid, report.outcome == "passed"
        if passed and report.when == "call":
            self._outcomes[test] = "passed" if self._outcomes.get(test) == "incomplete" else "error"
        elif passed:
            self._outcomes.setdefault(test, "incomplete")
        else:
            named = "failed" if report.when == "call" else "error"
            self._outcomes[test] = "skipped" if report.outcome == "skipped" else named
            self._messages[test] = str(report.longrepr)[:300]

    def pytest_collectreport(self, report: Any) -> None:
        """Files that cannot be imported have no tests; the reason is kept."""
        if report.outcome == "failed":
            self._messages[report.nodeid] = str(report.longrepr)[-300:]

    def report(self, *, tampered: bool) -> dict[str, Any]:
        """What goes through the pipe, canaries included."""
        ending = "the test runner was tampered with" if tampered else "complete"
        return {"tests": self._outcomes, "messages": self._messages, "ending": ending}


def _fingerprint() -> Fingerprint:
    """Every function and method that decides an outcome, with the code it runs."""
    seen: Fingerprint = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in _GUARDED:
            continue
        for key, value in list(vars(module).items()):
            if callable(value):
                seen[name, key] = (value, getattr(value, "__code__", None))
            if isinstance(value, type) and value.__module__ == name and name != "builtins":
                for inner, part in list(vars(value).items()):
                    if callable(part) or isinstance(part, (property, classmethod, staticmethod)):
                        seen[name, key, inner] = (part, getattr(part, "__code__", None))  # pyright: ignore[reportUnknownArgumentType]
    return seen


def _is_tampered(before: Fingerprint) -> bool:
    """Whether anything was replaced or rewritten; additions are fine."""
    now = _fingerprint()
    return any(
        key not in now or now[key][0] is not a or now[key][1] is not b for key, (a, b) in before.items()
    )


if __name__ == "__main__":
    main()
