"""What a harness leaves in the machine's temporary folder: `python -m tests.support.left_behind HARNESS`.

To be run where /tmp is empty and nobody else's (`alone` makes the command line). Prints a JSON object: the
paths that one rollout added while its worker lived on, and those that stand when the worker is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from lego_harness.types import StopReason
from tests.support.real_rollout import Worker, finish, open_worker, run_command, solve
from tests.support.scripted_engine import Step, say

OURS = Path("/tmp/worker")
ROOT = Path(__file__).parents[2]
_ALONE = """
for kept in {kept}; do
  mkdir -p "$0${{kept#/tmp}}"
  mount --bind "$kept" "$0${{kept#/tmp}}"
done
mount --rbind "$0" /tmp
exec "$@"
"""
FORKED = ("mini-swe-agent", "openhands")
EDITORS = {
    "claude-code": ("Edit", "file_path", "old_string", "new_string"),
    "opencode": ("edit", "filePath", "oldString", "newString"),
    "openhands": ("file_editor", "path", "old_str", "new_str"),
}


def alone(folder: Path, harness: str) -> list[str]:
    """The command line of this program with `folder` as its /tmp; needs root."""
    program = [sys.executable, "-m", "tests.support.left_behind", harness]
    script = _ALONE.format(kept=shlex.join(map(str, _kept())))
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, str(folder), *program]


def _kept() -> list[Path]:
    """What the program needs and a checkout under /tmp would hide from it."""
    cache = os.environ.get("LEGO_CACHE") or Path.home() / ".cache"
    needed = (ROOT, sys.prefix, sys.base_prefix, cache)
    return [Path(path) for path in needed if Path(path).is_relative_to("/tmp") and Path(path).is_dir()]


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
    """All of /tmp but our own folder, what is kept, and the empty ones in which sandboxes are made."""
    ours, found = (OURS, *_kept()), set[str]()
    for folder, folders, files in os.walk("/tmp"):
        folders[:] = [name for name in folders if Path(folder, name) not in ours]
        paths = [Path(folder, name) for name in (*folders, *files)]
        found |= {str(path) for path in paths if not any(kept.is_relative_to(path) for kept in ours)}
    return {path for path in found if not _is_empty_root(Path(path))}


def _is_empty_root(path: Path) -> bool:
    return path.name.startswith("lego-rl-") and path.is_dir() and not any(path.iterdir())


def main(argv: Sequence[str]) -> None:
    asyncio.run(_main(argv[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
