"""Runs hidden tests inside a grading sandbox and reports over a protocol. Stands alone: stdlib + pytest.

    host ──files, job, nonce, job …──▶ parent ──fork──▶ child: pytest over hidden tests + canaries
    host ◀──nonce + one JSON line───── parent ◀──pipe── child

The parent never imports a line of the agent's. It reads a job only after every process of the job
before is dead, and a job's nonce only after its own are: no code under test knows what comes, or can
write to the parent's output. The child can be lied to by the code it runs: must-fail canaries and a
check that pytest's own code is what it was show most lies. What is left is judged by the host, from
tests that contradict each other (`contradict.py`): which of them are genuine is not known in here.
Invariant: READY is printed before any code under test runs, so that its absence is our own failure.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import random
import select
import shutil
import signal
import sys
import tempfile
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
_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36
_MAX_REPORT = 4_000_000
_KILL_S = 10.0
_GUARDED = {
    *("pytest", "_pytest", "pluggy", "unittest", "builtins", "json", "operator", "__main__"),
    *("math", "cmath", "re", "copy", "difflib", "functools", "itertools", "collections", "contextlib"),
}
"""The runner's own, and what tests compare with."""
_PYTEST = (
    *("-q", "-c", "/dev/null", "-p", "no:cacheprovider", "-p", "no:unraisableexception"),
    *("--tb=line", "-W", "ignore", "--continue-on-collection-errors"),
)
Fingerprint = dict[tuple[str, ...], tuple[object, object]]


def main() -> None:
    """`runner.py TOOLCHAIN`; stdin holds {files, jobs, restore}, then each file's absolute path and content,
    then each job and its nonce, sizes first."""
    here = str(Path(__file__).resolve().parent)
    sys.path[:] = [sys.argv[1], *(path for path in sys.path if path not in ("", here))]
    _import_pytest()
    order = json.loads(_read_message())
    for _ in range(order["files"]):
        _write(Path(os.fsdecode(_read_message())), _read_message())
    _prctl(_PR_SET_DUMPABLE, 0)  # /proc of this process is closed to the children from here on
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # what they leave running is ours to end
    backup = _copy_of(order["restore"])
    _say(READY)
    for number in range(order["jobs"]):
        job = json.loads(_read_message())
        if tree := job["tree"] or (backup if number else ""):
            _take_over(Path(tree), Path(job["workspace"]))
        verdict = _run_job(job)
        _say(_read_message().decode() + json.dumps(verdict))
        if order["restore"] and verdict["ending"] != "complete":
            break


def _import_pytest() -> None:
    """All of pytest's own plugins are loaded now, from the toolchain, and whatever is to be guarded."""
    from _pytest.config import get_config

    for name in sorted(_GUARDED - {"__main__"}):
        importlib.import_module(name)
    get_config()._ensure_unconfigure()  # pyright: ignore[reportPrivateUsage]
    gc.freeze()  # children need not look again at what all of them share


def _read_message() -> bytes:
    """Ten digits and as many bytes: what follows stays in the pipe, out of the children's memory."""
    return _read_exactly(int(_read_exactly(10)))


def _read_exactly(size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = os.read(0, size - len(data))
        if not chunk:
            sys.exit("the grader's input ended early")
        data += chunk
    return bytes(data)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


# --- the parent --------------------------------------------------------------------------------


def _run_job(job: dict[str, Any]) -> dict[str, Any]:
    """{tests, select, workspace, timeout_s, …} → {tests, durations_s, messages, canaries, ending}."""
    _lay_out(job)
    bait, names = _plant_canaries()
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(receiving)
        _run_child(job, bait, sending)
    os.close(sending)
    raw, in_time = _collect(receiving, child, job["timeout_s"])
    os.close(receiving)
    status = _end_all(child)
    shutil.rmtree(bait, ignore_errors=True)
    return _judge(raw, in_time, status, names)


def _lay_out(job: dict[str, Any]) -> None:
    """The tests of a job that nobody was to see before: links to those of another, save for what is changed."""
    if not job["model"]:
        return
    model, tests = Path(job["model"]), Path(job["tests"])
    tests.mkdir()
    for path in sorted(model.rglob("*")):  # a folder before what is in it
        place, name = tests / path.relative_to(model), path.relative_to(model).as_posix()
        if path.is_dir():
            place.mkdir()
        elif name in job["changed"]:
            place.write_text(job["changed"][name], encoding="utf-8")
        else:
            place.symlink_to(path)


def _copy_of(workspace: str) -> str:
    """Where the workspace is kept for the jobs after the first; empty when it is not wanted."""
    if not workspace:
        return ""
    folder = tempfile.mkdtemp()
    shutil.copytree(workspace, folder, dirs_exist_ok=True, symlinks=True)
    return folder


def _take_over(tree: Path, workspace: Path) -> None:
    """Empty the workspace and fill it from `tree`, which may lie in it."""
    for path in workspace.iterdir():
        if tree.is_relative_to(path):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    shutil.copytree(tree, workspace, dirs_exist_ok=True, symlinks=True)


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


def _end_all(child: int) -> int:
    """Kill the child if it still runs, and all that descends from it; the child's exit code."""
    status, deadline = 0, time.monotonic() + _KILL_S
    while (left := _children()) and time.monotonic() < deadline:
        for pid in left:
            ended, code = os.waitpid(pid, os.WNOHANG)
            if not ended:
                os.kill(pid, signal.SIGKILL)
                ended, code = os.waitpid(pid, 0)
            if ended == child:
                status = os.waitstatus_to_exitcode(code)
    return status


def _children() -> list[int]:
    """Processes whose parent is this one, orphans that were handed to it among them."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                    found.append(int(entry.name))
    return found


def _judge(raw: bytes, in_time: bool, status: int, names: list[str]) -> dict[str, Any]:
    """A report is one only when it tells of every canary: who forges it does not know their names."""
    silent: dict[str, Any] = {"tests": {}, "durations_s": {}, "messages": {}, "canaries": 0}
    if not in_time:
        return {**silent, "ending": "the tests ran into their time limit"}
    if status != ODD_EXIT:
        return {**silent, "ending": f"the test process ended early (exit {status})"}
    try:
        report = json.loads(raw)
        tests, ending = dict(report["tests"]), str(report["ending"])
        others = {key: dict(report[key]) for key in ("durations_s", "messages")}
    except (ValueError, KeyError, TypeError):
        return {**silent, "ending": "the test process did not report"}
    failed = sum(
        any(name in test and outcome == "failed" for test, outcome in tests.items()) for name in names
    )
    shown = {key: _without(table, names) for key, table in {"tests": tests, **others}.items()}
    return {**shown, "canaries": failed, "ending": ending}


def _without(table: dict[str, Any], names: list[str]) -> dict[str, Any]:
    return {test: value for test, value in table.items() if not any(name in test for name in names)}


# --- the child ---------------------------------------------------------------------------------


def _run_child(job: dict[str, Any], bait: Path, pipe: int) -> NoReturn:
    """Run pytest, report through `pipe`, end oddly."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    _prctl(_PR_SET_DUMPABLE, 1)
    os.chdir(job["workspace"])
    sys.path.append(job["workspace"])
    before, record = _fingerprint(), Record(Path(job["tests"]), job["select"])
    _run_pytest(Path(job["tests"]), job["select"], bait, record)
    report = json.dumps(record.report(tampered=_is_tampered(before))).encode()
    while report:
        report = report[os.write(pipe, report) :]
    os._exit(ODD_EXIT)


def _run_pytest(tests: Path, select: list[str], bait: Path, record: Record) -> None:
    import pytest

    canaries = sorted(str(path) for path in bait.iterdir())
    half = len(canaries) // 2
    files = dict.fromkeys(name.partition("::")[0] for name in select)
    wanted = [f"{tests}/{name}" for name in files] or _hidden_tests(tests)
    folders = [f"--rootdir={tests}", f"--confcutdir={tests}"]
    pytest.main([*_PYTEST, *folders, *canaries[:half], *wanted, *canaries[half:]], plugins=[record])


def _hidden_tests(folder: Path) -> Iterator[str]:
    for path in sorted(folder.rglob("*.py")):
        if path.stem.startswith("test_") or path.stem.endswith("_test"):
            yield str(path)


class Record:
    """A pytest plugin: the outcome of each test over its set-up, call and tear-down; of `select` only, where it names
    functions. Were those given to pytest, it would run nothing at all where one cannot be imported."""

    def __init__(self, tests: Path, select: list[str]) -> None:
        self._tests, self._select = tests, frozenset(select)
        self._outcomes: dict[str, str] = {}
        self._messages: dict[str, str] = {}
        self._durations_s: dict[str, float] = {}

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave out what was not asked for, canaries aside."""
        if self._select:
            items[:] = [item for item in items if self._is_wanted(item)]

    def _is_wanted(self, item: Any) -> bool:
        function = item.nodeid.partition("[")[0]
        return function in self._select or not item.path.is_relative_to(self._tests)

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A test has passed when its call passed and nothing failed around it. Of its subtests, which are
        reported before it, those that passed say nothing."""
        test, passed = report.nodeid, report.outcome == "passed"
        if passed and hasattr(report, "context"):
            return
        self._durations_s[test] = round(self._durations_s.get(test, 0.0) + report.duration, 4)
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
        return {
            "tests": self._outcomes,
            "durations_s": self._durations_s,
            "messages": self._messages,
            "ending": ending,
        }


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
