"""The main job at a smaller size, as a person starts it: `lego quickstart` in a process of its own."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SMALL = {
    "train.steps": 2,
    "rollout.groups_per_step": 3,
    "rollout.group_size": 6,
    # On a loaded machine harnesses and engines take longer to start than the quickstart lets a rollout last.
    "rollout.max_seconds": 600,
    "tasks.num_train": 12,
    "tasks.num_heldout": 8,
    "eval.num_tasks": 8,
}


def lego(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a `lego` command in `folder` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "lego_control", *arguments], cwd=folder, capture_output=True, text=True
    )


def start(arguments: list[str], folder: Path) -> subprocess.Popen[str]:
    """The same, going on while the test does."""
    return subprocess.Popen(
        [sys.executable, "-m", "lego_control", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run_dir(folder: Path) -> Path:
    """The only run of a folder."""
    (info,) = folder.glob("runs/*/run.json")
    return info.parent


TRAJECTORIES = ("trajectories/index.jsonl",)
ANYTHING = (*TRAJECTORIES, "events.jsonl")
"""Also the stages of a step, of a start and of a checkpoint."""


def num_lines(folder: Path, files: Sequence[str]) -> int:
    return sum(file.read_bytes().count(b"\n") for name in files for file in folder.glob(f"runs/*/{name}"))


def wait_for(program: subprocess.Popen[str], folder: Path, files: Sequence[str], more: int) -> None:
    """Until the run has written `more` lines to these files."""
    target = num_lines(folder, files) + more
    while num_lines(folder, files) < target:
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(0.05)
            raise AssertionError(f"the run ended by itself: {program.communicate()}")


def quickstart(*, harness: str, sandbox: str, **changes: object) -> list[str]:
    """Arguments of a small quickstart; `changes` in recipe keys with `__` for the dot."""
    settings = SMALL | {key.replace("__", "."): value for key, value in changes.items()}
    return ["quickstart", "--harness", harness, "--sandbox", sandbox, *_sets(settings)]


def _sets(settings: dict[str, object]) -> Sequence[str]:
    return [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]


def show(folder: Path) -> dict[str, Any]:
    """`lego show --json` of the newest run in `folder`."""
    shown = lego("show", "--json", folder=folder)
    assert shown.returncode == 0, shown.stderr
    return json.loads(shown.stdout)
