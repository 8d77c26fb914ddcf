"""What the agent starts with contains at most one commit, no hidden test and no reference solution."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground
from lego_harness.errors import SetupError
from lego_harness.grading.sealed import sealed_git
from lego_harness.tasks.folder import tree_files, workspace_files
from lego_harness.types import Task

MIN_BYTES = 64
"""A shorter file may be the same by chance: an empty __init__.py, say."""


def run(ground: Ground) -> str:
    tasks = ground.some_tasks()
    for task in tasks:
        if found := _leak(task):
            raise Broken(f"task {task.id}: {found}", "repair it, or take it out of the task's environment")
    sealed = sum(bool(sealed_git(task.workspace)) for task in tasks)
    return f"{len(tasks)} workspaces hold neither tests nor solutions; {sealed} with a git history, sealed to one commit"


def _leak(task: Task) -> str:
    try:
        sealed_git(task.workspace)
    except SetupError as error:
        return str(error)
    files = workspace_files(task)
    hidden = {
        data: name
        for folder in (task.tests, task.solution.parent)
        for name, data in tree_files(folder).items()
    }
    for name, data in files.items():
        if len(data) >= MIN_BYTES and data in hidden:
            return f"its workspace shows {hidden[data]} as {name}"
    return ""
