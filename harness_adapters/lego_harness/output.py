"""Writing a command's result where its caller asked for it: one rule for all commands.

A place that cannot be written (no such folder, no permission, no space) is an outside failure, whoever chose it:
exit 3. A name that is refused before anything is tried (it exists, the wrong ending) is the caller's mistake: exit 2.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from lego_harness.errors import InfrastructureError, UsageError


@contextmanager
def writing(out: Path | str) -> Generator[None]:
    """A context for writing `out`. Raises InfrastructureError if the system refuses."""
    try:
        yield
    except OSError as error:
        other = f" ({error.filename})" if error.filename and str(error.filename) not in str(out) else ""
        raise InfrastructureError(
            f"{out}: cannot be written: {error.strerror or error}{other}; choose another place"
        ) from error


@contextmanager
def whole_folder(out: Path) -> Generator[Path]:
    """A folder to fill, which becomes `--out` on success and is removed otherwise. Raises UsageError if that exists."""
    unfinished = _beside(out)
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        with writing(f"--out {out}"):
            unfinished.mkdir(parents=True)
            yield unfinished
            unfinished.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def resumed_folder(out: Path) -> Generator[Path]:
    """As `whole_folder`, but if the command ends early its content stays, and is there when the command begins
    again."""
    unfinished = _beside(out)
    try:
        with writing(f"--out {out}"):
            unfinished.mkdir(parents=True, exist_ok=True)
            yield unfinished
            unfinished.rename(out)
    finally:
        with suppress(OSError):
            unfinished.rmdir()  # nothing was begun


def _beside(out: Path) -> Path:
    if out.exists():
        raise UsageError(f"--out {out}: is there already, expected a new folder")
    return out.with_name(f".{out.name}.unfinished")
