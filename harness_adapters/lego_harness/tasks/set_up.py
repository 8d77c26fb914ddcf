"""A task's sandbox, from opened to ready for its user.

Runs the task's `setup.sh`, takes the network away and proves that, and looks for git history other than the sealed one.
Invariants: nobody else's code runs before; what a set-up leaves in the workspace is bounded, and agent, reference
solution and grading all start from it. Opens no sandbox.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from lego_harness.errors import SetupError
from lego_harness.sandbox.base import MAX_EXPORT_BYTES, MAX_EXPORT_FILES, Phase, Sandbox
from lego_harness.tasks.folder import UNREAD
from lego_harness.tasks.history_left import require_no_clones, require_same_history
from lego_harness.text import one_line
from lego_harness.types import Task


async def set_up(
    sandbox: Sandbox, task: Task, *, given: Mapping[str, bytes], then: Phase
) -> dict[str, bytes] | None:
    """Run the task's set-up script over `given` and go on to a phase without network. Returns what the workspace
    holds then, in the form of `folder.tree_files`; None if there is no script. Raises SetupError."""
    script = task.surroundings.setup
    if script is not None:
        await _run(sandbox, task, script)
        await sandbox.enter(then)
    await require_no_clones(sandbox, task, given)
    if script is None:
        return None
    left = _bounded(await sandbox.export(), script)
    require_same_history(script, given, left)
    return {name: content for name, content in left.items() if not UNREAD.intersection(name.split("/"))}


async def _run(sandbox: Sandbox, task: Task, script: Path) -> None:
    wanted, content = task.surroundings, await asyncio.to_thread(script.read_bytes)
    ended = await sandbox.exec(["sh", "-s"], timeout_s=wanted.setup_timeout_s, stdin=content)
    if ended.timed_out:
        raise SetupError(f"{script}: not done within {wanted.setup_timeout_s:g} s")
    if ended.exit_code != 0:
        said = one_line(ended.stderr or ended.stdout, limit=300, keep="end") or "nothing"
        hint = "" if wanted.setup_network else "; it has no network without environment.setup_network = true"
        raise SetupError(f"{script}: ended with exit code {ended.exit_code} and said: {said}{hint}")


def _bounded(left: dict[str, bytes], script: Path) -> dict[str, bytes]:
    if len(left) > MAX_EXPORT_FILES or sum(map(len, left.values())) > MAX_EXPORT_BYTES:
        raise SetupError(
            f"{script}: leaves more than {MAX_EXPORT_FILES} files or {MAX_EXPORT_BYTES} bytes in the workspace, "
            "expected less: bring them in by an image or a mount"
        )
    return left
