"""What the agent starts with holds no history, no hidden test and no reference solution."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground
from lego_harness.tasks.folder import tree_files, workspace_files
from lego_harness.types import Task

MIN_BYTES = 64
"""A shorter file may be the same by chance: an empty __init__.py, say."""


def run(ground: Ground) -> str:
    tasks = ground.some_tasks()
    for task in tasks:
        if found := _leak(task):
            raise Broken(f"task {task.id}: {found}", "take it out of the task's environment")
    return f"{len(tasks)} workspaces hold neither history nor tests nor solutions"


def _leak(task: Task) -> str:
    files = workspace_files(task)
    history = [name for name in files if ".git" in name.split("/")[:-1]]
    if history:
        return f"{len(history)} files of a git history are in its workspace, first {history[0]}"
    hidden = {
        data: name
        for folder in (task.tests, task.solution.parent)
        for name, data in tree_files(folder).items()
    }
    for name, data in files.items():
        if len(data) >= MIN_BYTES and data in hidden:
            return f"its workspace shows {hidden[data]} as {name}"
    return ""
