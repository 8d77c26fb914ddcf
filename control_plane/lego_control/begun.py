"""The record of a long command, kept while it runs, so that the same command can continue after it ended early.

Invariants: the file is complete at any time; only a command that asks for the same in the same way continues it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from lego_harness.errors import UsageError

Record = TypeVar("Record", bound=BaseModel)


def begun(path: Path, asked: Record) -> Record:
    """The record at `path`, or `asked` if there is none; raises UsageError if it was begun with other values for
    the settings in `asked`."""
    try:
        record = type(asked).model_validate_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return asked
    except ValueError as error:
        raise UsageError(f"{path}: cannot be read; remove {path.parent} to begin anew") from error
    others = sorted(key for key in asked.model_fields_set if getattr(record, key) != getattr(asked, key))
    if others:
        had = ", ".join(f"{key} {getattr(record, key)}" for key in others)
        raise UsageError(
            f"{path.parent}: was begun with {had}; finish it with that, or remove it to begin anew"
        )
    return record


def keep(path: Path, record: BaseModel) -> None:
    """Write the record, replacing the last one."""
    scratch = path.with_name(f".{path.name}")
    scratch.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")
    scratch.rename(path)
