"""What a harness leaves in the machine's temporary folder: `python -m tests.support.left_behind HARNESS`.

To be run where /tmp is empty and nobody else's (`alone` makes the command line). Prints a JSON object: the
paths that one rollout added while its worker lived on, and those that stand when the worker is closed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lego_harness.types import StopReason
from tests.support.real_rollout import Worker, finish, open_worker, run_command, solve
from tests.support.scripted_engine import Step, say

OURS = Path("/tmp/worker")
FORKED = ("mini-swe-agent", "openhands")
EDITORS = {
    "claude-code": ("Edit", "file_path", "old_string", "new_string"),
    "opencode": ("edit", "filePath", "oldString", "newString"),
    "openhands": ("file_editor", "path", "old_str", "new_str"),
}


def alone(folder: Path, harness: str) -> list[str]:
    """The command line of this program with `folder` as its /tmp; needs root."""
    script = 'mount --bind "$0" /tmp && exec "$@"'
    program = [sys.executable, "-m", "tests.support.left_behind", harness]
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(folder), *program]


async def _main(harness: str) -> None:
    OURS.mkdir()
    async with open_worker(OURS, harness, "bubblewrap") as worker:
        await worker.adapter.check()
        if harness in FORKED:
            await worker.run([finish(harness)])  # the first makes folders that all of them share
        before = _paths()
        trajectory = await worker.run(_steps(worker))
        assert trajectory.stop_reason is StopReason.COMPLETED, trajectory.error
        added = _paths() - before
    sys.stdout.write(json.dumps({"rollout": sorted(added), "worker": sorted(_paths())}))


def _steps(worker: Worker) -> list[Step]:
    """Look, repair (with the harness's own editor where it has one), write into the temporary folder, end."""
    harness, task = worker.adapter.name, worker.synth
    look, repair, end = solve(harness, task)
    if harness in EDITORS:
        tool, path, old, new = EDITORS[harness]
        where = {path: f"/workspace/{task.file}", "command": "str_replace"}
        said = {old: f" {task.initial.operator} ", new: f" {task.wanted.operator} "}
        repair = say("", (tool, where | said))
    return [look, repair, run_command(harness, "mktemp; mktemp -d"), end]


def _paths() -> set[str]:
    """All of /tmp but our own folder and the empty one in which sandboxes are made."""
    return {str(path) for path in Path("/tmp").rglob("*") if not _is_known(path)}


def _is_known(path: Path) -> bool:
    return path.is_relative_to(OURS) or (path.name.startswith("lego-rl-") and not any(path.iterdir()))


def main(argv: Sequence[str]) -> None:
    asyncio.run(_main(argv[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
