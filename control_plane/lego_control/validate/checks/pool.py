"""The task pool: enough tasks of each split, and nothing held out that is also trained on."""

from __future__ import annotations

import hashlib

from lego_control.validate.base import Broken, Ground
from lego_harness.errors import UsageError
from lego_harness.tasks.folder import workspace_files
from lego_harness.types import Task


def run(ground: Ground) -> str:
    try:
        tasks = ground.tasks()
    except UsageError as error:
        raise Broken(str(error), "repair the task it names, or take it out of the pool") from error
    sizes = ground.recipe.tasks
    for split, wanted in (("train", sizes.num_train), ("heldout", sizes.num_heldout)):
        found = sum(task.split == split for task in tasks)
        if found < wanted:
            raise Broken(f"{found} {split} tasks, the recipe wants {wanted}", f"lower tasks.num_{split}")
    trained = {_content(task): task.id for task in tasks if task.split == "train"}
    leaked = [
        (task.id, trained[key])
        for task in tasks
        if task.split == "heldout" and (key := _content(task)) in trained
    ]
    if leaked:
        raise Broken(
            f"{len(leaked)} held-out tasks are also trained on, first {leaked[0][0]} which equals {leaked[0][1]}",
            "take them out of one of the two splits",
        )
    return f"{len(tasks)} tasks, no held-out one is trained on"


def _content(task: Task) -> str:
    """Identifies a task by its instruction and its starting files, whatever its name."""
    digest = hashlib.sha256(task.instruction.strip().encode())
    for name, data in sorted(workspace_files(task).items()):
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()
