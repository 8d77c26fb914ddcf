"""FAIL_TO_PASS and PASS_TO_PASS of an imported task: which of its hidden tests decide, in SWE-bench's words.

    tests/config.json     {"FAIL_TO_PASS": […], "PASS_TO_PASS": […], …}     lists, or lists in a string (SWE-bench)

Invariant: a list is taken whole or refused with a GraderError that names what is wrong: a reward never hangs
on half a file, a name twice, or a name that is in both. Tests that neither list names decide nothing. Whether
the lists tell the truth is found by running both trees (`reference.py`).
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from lego_harness.errors import GraderError
from lego_harness.invalid import got, reason
from lego_harness.text import one_line

FILE = "config.json"
MAX_BYTES = 8 * 2**20
MAX_NAMES = 50_000
_KEYS = ("FAIL_TO_PASS", "PASS_TO_PASS")


def _unpacked(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected a JSON list in a string: {one_line(str(error), limit=80)}") from error


Names = Annotated[
    tuple[Annotated[str, StringConstraints(min_length=1, max_length=4_000)], ...],
    BeforeValidator(_unpacked),
    Field(max_length=MAX_NAMES),
]


class Listed(BaseModel):
    """Names of tests as the task gives them; the file's other keys are somebody else's."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    fail_to_pass: Names = Field(alias="FAIL_TO_PASS", min_length=1)
    pass_to_pass: Names = Field((), alias="PASS_TO_PASS")

    def found_in(self, ran: dict[str, str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Both lists in the runner's names, which are relative to the tests folder."""
        fail, kept = (
            tuple(_ours(name, ran) for name in names) for names in (self.fail_to_pass, self.pass_to_pass)
        )
        return fail, kept


def listed_tests(tests: Path) -> Listed | None:
    """What a task's tests folder lists; None where it lists nothing. Raises GraderError."""
    path = tests / FILE
    try:
        if path.stat().st_size > MAX_BYTES:
            raise GraderError(f"{path}: expected at most {MAX_BYTES} bytes, got {path.stat().st_size}")
        table = json.loads(path.read_bytes())
        if not isinstance(table, dict) or not any(key in table for key in _KEYS):
            return None
        listed = Listed.model_validate(table)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise GraderError(f"{path}: {where}: {reason(first)}, got {got(first)}") from error
    except (OSError, ValueError, RecursionError) as error:
        raise GraderError(f"{path}: cannot be read as JSON: {one_line(str(error))}") from error
    _refuse_repeated(path, listed)
    return listed


def _refuse_repeated(path: Path, listed: Listed) -> None:
    both = set(listed.fail_to_pass) & set(listed.pass_to_pass)
    if both:
        raise GraderError(f"{path}: {min(both)} is in FAIL_TO_PASS and in PASS_TO_PASS, expected it in one")
    name, count = Counter((*listed.fail_to_pass, *listed.pass_to_pass)).most_common(1)[0]
    if count > 1:
        raise GraderError(f"{path}: {name} is listed {count} times, expected once")


def _ours(name: str, ran: dict[str, str]) -> str:
    """SWE-bench counts from the repository's root, we from the tests folder."""
    return name if name in ran else name.removeprefix("tests/")
