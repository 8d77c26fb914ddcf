"""Task folders in Harbor's layout, read and checked.

    TASK/task.toml  instruction.md  environment/repo/…  tests/test_*.py  solution/solve.sh

Invariant: a Task that was loaded can be rolled out and graded; whatever is wrong with a folder is one
UsageError that names the file. Harbor's own keys in task.toml are accepted, ours are checked. Runs
nothing: `proof.py` proves whether the tests tell right from wrong.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from lego_harness.errors import UsageError
from lego_harness.grading.git_history import HISTORIES
from lego_harness.invalid import got, reason
from lego_harness.tasks.plain import require_plain
from lego_harness.tasks.surroundings import EnvironmentTable, NoVariables, read_surroundings
from lego_harness.text import one_line
from lego_harness.types import Task

UNREAD = frozenset({"__pycache__", *HISTORIES})
"""Folders that are not part of a workspace or of tests, wherever they are."""


class _Metadata(BaseModel):
    """Free-form in Harbor; these two we read."""

    model_config = ConfigDict(extra="allow", frozen=True)

    split: Literal["train", "heldout"] = "train"
    tags: tuple[str, ...] = ()


class _Table(BaseModel):
    """[agent], [verifier] and [solution]."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    timeout_sec: float | None = Field(None, gt=0)
    env: NoVariables = {}


def _single(steps: tuple[Any, ...]) -> tuple[Any, ...]:
    if steps:
        raise ValueError(
            "a task has one instruction and one grading here; make a task of each step, or take it out of the pool"
        )
    return steps


class _TaskToml(BaseModel):
    """The whole file; sections of Harbor's that we do not read pass unread."""

    model_config = ConfigDict(extra="allow", frozen=True)

    metadata: _Metadata = _Metadata()
    agent: _Table = _Table(timeout_sec=None)
    verifier: _Table = _Table(timeout_sec=None)
    solution: _Table = _Table(timeout_sec=None)
    environment: EnvironmentTable = EnvironmentTable()
    steps: Annotated[tuple[Any, ...], AfterValidator(_single)] = ()
    """Harbor's tasks of several steps, which are refused."""


def load_pool(folder: Path) -> tuple[Task, ...]:
    """Every task folder below `folder`, by name; raises UsageError for none or a bad one."""
    if not folder.is_dir():
        raise UsageError(f"task pool {folder}: expected a folder that holds task folders")
    tasks = [load_task(path) for path in task_folders(folder)]
    if not tasks:
        raise UsageError(f"task pool {folder}: found no task.toml; expected POOL/TASK/task.toml")
    seen: dict[str, Path] = {}
    for task in tasks:
        if task.id in seen:
            raise UsageError(f"task id {task.id!r} twice: {seen[task.id]} and {task.path}; rename one folder")
        seen[task.id] = task.path
    return tuple(tasks)


def task_folders(root: Path) -> list[Path]:
    """Every folder at or below `root` with a task.toml, or a link to one; folders inside a task are not searched."""
    return sorted(_task_folders(root))


def _task_folders(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        here = Path(folder)
        if "task.toml" in names:
            folders.clear()
            yield here
        yield from (link for name in folders if _is_linked_task(link := here / name))


def _is_linked_task(folder: Path) -> bool:
    return folder.is_symlink() and (folder / "task.toml").is_file()


def load_task(path: Path) -> Task:
    """One task folder; raises UsageError naming the file that is missing or wrong."""
    require_plain(path)
    toml = _read_toml(path / "task.toml")
    task = Task(
        id=(path.absolute() if path.name not in ("", "..") else path.resolve()).name,
        path=path.absolute(),
        instruction=_read_instruction(path / "instruction.md"),
        split=toml.metadata.split,
        tags=toml.metadata.tags,
        agent_timeout_s=toml.agent.timeout_sec or 120.0,
        verifier_timeout_s=toml.verifier.timeout_sec or 60.0,
        surroundings=read_surroundings(path.absolute(), toml.environment),
    )
    if not _files_under(task.workspace):
        raise UsageError(f"{task.workspace}: expected the files the agent starts with, got none")
    if not any(is_test_file(file) for file in _files_under(task.tests)):
        raise UsageError(f"{task.tests}: expected hidden tests (test_*.py or *_test.py), got none")
    return task


def workspace_files(task: Task) -> dict[str, bytes]:
    """The files the agent starts with: relative path → content."""
    return tree_files(task.workspace)


def tree_files(root: Path) -> dict[str, bytes]:
    """A trusted folder's files by relative path, without bytecode caches and histories (`git_history.py`)."""
    return {file.relative_to(root).as_posix(): file.read_bytes() for file in _files_under(root)}


def is_test_file(path: Path) -> bool:
    """Whether pytest takes the file for a test module."""
    return path.suffix == ".py" and (path.stem.startswith("test_") or path.stem.endswith("_test"))


def _files_under(root: Path) -> list[Path]:
    return [
        path
        for path in sorted(root.rglob("*"))
        if path.is_file() and not UNREAD.intersection(path.relative_to(root).parts)
    ]


def _read_toml(path: Path) -> _TaskToml:
    try:
        return _TaskToml.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; expected a task folder with a task.toml") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{path}: {key}: {reason(first)}, got {got(first)}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not valid TOML: {one_line(str(error))}") from error


def _read_instruction(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: expected the instruction as UTF-8 text: {error}") from error
    if not text:
        raise UsageError(f"{path}: the instruction is empty; say what the agent has to do")
    return text
