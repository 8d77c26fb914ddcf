"""What a command writes where its caller said: one rule for all of them.

A place that cannot be written (no such folder, no right, no space) failed outside, whoever chose it: exit 3. A name
that is refused before anything is tried (there already, the wrong ending) is the caller's word: exit 2.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lego_harness.errors import InfrastructureError


@contextmanager
def writing(out: Path | str) -> Generator[None]:
    """Around the writing of `out`. Raises InfrastructureError where the system refuses."""
    try:
        yield
    except OSError as error:
        raise InfrastructureError(
            f"{out}: cannot be written: {error.strerror or error}; choose another place"
        ) from error
