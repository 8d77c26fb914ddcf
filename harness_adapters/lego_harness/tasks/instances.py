"""Rows of a SWE-bench-like set: somebody else's file, read and checked row by row.

Invariant: whatever a row contains, it becomes an Instance or a UsageError that says what is wrong; one bad row does
not affect the others. Knows nothing of repositories.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from lego_harness.errors import UsageError
from lego_harness.grading.listed import Names
from lego_harness.invalid import got, reason
from lego_harness.text import one_line

_Text = Annotated[str, StringConstraints(min_length=1, max_length=4 * 2**20)]


class Instance(BaseModel):
    """One row of a SWE-bench-like set; other columns are somebody else's."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    instance_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,199}$")
    repo: str = Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)?$")
    base_commit: str = Field(pattern=r"^[0-9a-f]{7,64}$")
    problem_statement: _Text
    patch: _Text
    test_patch: _Text
    fail_to_pass: Names = Field(alias="FAIL_TO_PASS", min_length=1)
    pass_to_pass: Names = Field((), alias="PASS_TO_PASS")
    docker_image: _Text | None = None


def rows(path: Path) -> Iterator[tuple[str, Any | UsageError]]:
    """Place and content of each row, from JSON Lines or one JSON list; a line that is not JSON gives a UsageError
    in place of its row. Raises UsageError if nothing can be read."""
    try:
        content = path.read_bytes()
        listed = _list(content) if content.lstrip().startswith(b"[") else None
    except (OSError, ValueError, RecursionError) as error:
        said = one_line(str(error), limit=200)
        raise UsageError(f"{path}: expected JSON Lines or a JSON list in UTF-8: {said}") from error
    if listed is not None:
        yield from ((f"row {number}", row) for number, row in enumerate(listed, 1))
        return
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            yield f"line {number}", _row(line)


def _list(content: bytes) -> list[Any]:
    return json.loads(content.decode("utf-8"))


def _row(line: bytes) -> Any | UsageError:
    try:
        return json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return UsageError(f"expected a JSON object in UTF-8: {one_line(str(error), limit=200)}")


def instance(row: Any) -> Instance:
    """A row, checked; raises UsageError naming the column."""
    if isinstance(row, UsageError):
        raise row
    try:
        return Instance.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(map(str, first["loc"])) or "row"
        raise UsageError(f"{column}: {reason(first)}, got {got(first)}") from error
