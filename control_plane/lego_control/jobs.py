"""Programs that a client starts and asks about later: a handle instead of a call that never returns.

A job is a folder below `.jobs` of the runs folder: `job.json` (what was started), `out` (its output),
`report.json` (its checks) and `code` (how it ended). Invariants: the folder is the source of truth, so that a job
outlives the server that started it and another server may ask about it; what was proved of one recipe is never
reported for another that has taken its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from lego_control.failures import Refusal
from lego_control.fence import fence, line
from lego_control.schemas import Job
from lego_control.spawn import spawn

JOB = re.compile(r"[a-z]+-[0-9a-f]{12}")
PROFILES = ("smoke", "parity", "full")
MAX_SAID = 2_000
MAX_CHECKS = 40
PROC = Path("/proc")
ENDED = ("Z", "X")
"""States of an ended process that nobody has waited for yet."""


class Jobs:
    """The jobs below one runs folder."""

    def __init__(self, runs_folder: Path) -> None:
        self.folder = runs_folder.resolve() / ".jobs"  # other servers may name it otherwise
        self._started: set[str] = set()

    def validate(self, recipe: Path, profile: str, budget: str, key: str) -> Job:
        """Start `lego validate`. The same `key` names the same job, however often it is asked for, as long as the
        recipe is unchanged."""
        if profile not in PROFILES:
            raise Refusal("bad_argument", "unknown profile", f"one of {', '.join(PROFILES)}")
        if not recipe.is_file():
            raise Refusal("no_recipe", "no recipe file lies there", "give a path below the server's folder")
        named = f"{recipe}\0{profile}\0{budget}\0{key}\0".encode("utf-8", "surrogateescape")
        job = "validate-" + hashlib.sha256(named + recipe.read_bytes()).hexdigest()[:12]
        folder = self.folder / job
        if not (folder / "job.json").exists():
            report = ["--json", str(folder / "report.json")]
            self._started.add(job)
            self._start(folder, ["validate", str(recipe), "--profile", profile, "--budget", budget, *report])
        return self.get(job)

    def _start(self, folder: Path, arguments: Sequence[str]) -> None:
        from lego_core.store.append import write_whole

        folder.mkdir(parents=True, exist_ok=True)
        pid = spawn(["-m", "lego_control.jobs", str(folder), *arguments], folder / "out")
        told = {
            "arguments": list(arguments),
            "started": time.time(),
            "pid": pid,
            "host": socket.gethostname(),
        }
        write_whole(folder / "job.json", json.dumps(told).encode())

    def get(self, job: str) -> Job:
        """The state of a job. Raises Refusal for an unknown one."""
        folder = self._find(job)
        told = _json(folder / "job.json")
        code = _code(folder)
        ended = (folder / "code").stat().st_mtime if code is not None else time.time()
        is_gone = code is None and _is_here(told) and not _is_alive(int(told.get("pid", 0)), folder)
        state = "failed" if is_gone else "running" if code is None else "passed" if code == 0 else "failed"
        return Job(
            job=job,
            state="cancelled" if (folder / "cancelled").exists() and state != "running" else state,
            exit_code=code,
            seconds=round(ended - float(told.get("started", ended)), 1),
            checks=_checks(folder / "report.json"),
            resource=f"lego://jobs/{job}/report",
            text=fence(_said(folder / "out"), "program", MAX_SAID),
        )

    def cancel(self, job: str) -> Job:
        """End it; once is enough, twice does no harm."""
        folder = self._find(job)
        told = _json(folder / "job.json")
        pid = int(told.get("pid", 0))
        if _code(folder) is None and not _is_here(told):
            raise Refusal("not_here", "the job runs on another machine", f"cancel it on {told.get('host')}")
        if _code(folder) is None and _is_alive(pid, folder):
            (folder / "cancelled").touch()
            os.killpg(pid, signal.SIGTERM)
        return self.get(job)

    def is_ours_to_end(self, job: str) -> bool:
        """Whether nobody else may be waiting for it: this server started it, or it has ended or never existed."""
        try:
            return job in self._started or self.get(job).state != "running"
        except Refusal:
            return True

    def report(self, job: str) -> dict[str, Any]:
        """What the job wrote, as it is."""
        return _json(self._find(job) / "report.json")

    def _find(self, job: str) -> Path:
        folder = self.folder / job
        if not JOB.fullmatch(job) or not (folder / "job.json").is_file():
            raise Refusal("unknown_job", "there is no such job", "take the handle that validation_start gave")
        return folder


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _code(folder: Path) -> int | None:
    try:
        return int((folder / "code").read_text())
    except (OSError, ValueError):
        return None


def _is_alive(pid: int, folder: Path) -> bool:
    """Whether it is that process, not a later one with the same number. A process that has only just begun has no
    command line yet, and one that has ended has none any more."""
    try:
        said = (PROC / str(pid) / "cmdline").read_bytes()
        state = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return os.fsencode(folder) in said.split(b"\0") if said else state not in ENDED


def _is_here(told: dict[str, Any]) -> bool:
    """Whether its process is on this machine, so that one can see whether it is alive."""
    return told.get("host") in (None, socket.gethostname())


def _checks(path: Path) -> list[dict[str, Any]]:
    found = _json(path).get("checks")
    checks = cast(list[Any], found)[:MAX_CHECKS] if isinstance(found, list) else []
    return [_check(cast(dict[str, Any], check)) for check in checks if isinstance(check, dict)]


def _check(found: dict[str, Any]) -> dict[str, Any]:
    names = ("name", "status", "seconds", "evidence", "remedy")
    plain = {key: found[key] for key in names if isinstance(found.get(key), str | int | float)}
    return {key: line(value) if isinstance(value, str) else value for key, value in plain.items()}


def _said(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - 4 * MAX_SAID, 0))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def main(folder: Path, arguments: Sequence[str]) -> int:
    """The job's own process: run the command and record how it ended."""
    from lego_control.cli import main as lego
    from lego_core.store.append import write_whole

    code = lego(arguments)
    write_whole(folder / "code", str(code).encode())
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
