"""A task's `environment/` as a build context: whether it asks for an image, and what must not go into that image.

A Dockerfile that only brings `repo/` onto a Python image asks for none: the workspace is filled anyway.
Invariant: the project's `.git` is ignored by whichever ignore file a builder reads, at every stage: BuildKit takes
`Dockerfile.dockerignore` before `.dockerignore`, the engine's own builder `.dockerignore` only. Builds nothing; the
sandbox checks what an image really contains (`history_left.py`).
"""

from __future__ import annotations

import re
from pathlib import Path

from lego_harness.errors import UsageError
from lego_harness.sandbox.base import BUILD, FETCH

_PLAIN = re.compile(
    r"FROM (python:3\.\d+\S*|\$\{?BASE\}?)|ARG BASE|WORKDIR \S+|(COPY|ADD) (\./)?repo/?\.? \S+", re.IGNORECASE
)
_IGNORE = ".dockerignore"


def needs_image(place: Path) -> bool:
    """Whether the folder's Dockerfile asks for an image of its own; raises UsageError."""
    if (place / FETCH).is_file():
        return True
    try:
        text = (place / BUILD).read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{place / BUILD}: expected a Dockerfile in UTF-8: {error}") from error
    lines = (" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines())
    return not all(_PLAIN.fullmatch(line) for line in lines if line and not line.startswith("#"))


def require_ignored_history(place: Path) -> None:
    """Raise UsageError unless every ignore file keeps every `.git` out: the whole context goes to the builder, so
    that a `COPY` could show the agent the project's future."""
    stores = sorted(path.relative_to(place) for path in place.rglob(".git"))
    specific = [place / f"{name}{_IGNORE}" for name in (BUILD, FETCH)]
    for file in (place / _IGNORE, *(path for path in specific if path.exists())):
        rules = _rules(file) if stores else []
        for store in stores:
            if not _names(store) & {rule.strip("/") for rule in rules}:
                raise UsageError(
                    f"{place / store}: the image would be built from it, and show the project's future: add the line "
                    f"{store} to {file} (a build that asks git for a version can be told one)"
                )
        if any(rule.startswith("!") for rule in rules):
            raise UsageError(f"{file}: a rule with `!` may take {stores[0]} in again; write it without")


def _names(store: Path) -> set[str]:
    """Rules that keep it out: itself, any `.git`, a folder that contains it."""
    return {"**/.git", store.as_posix(), *(above.as_posix() for above in store.parents[:-1])}


def _rules(file: Path) -> list[str]:
    """One rule per line, without comments; none if there is no file."""
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: expected an ignore file in UTF-8: {error}") from error
    return [rule for line in lines if (rule := line.strip()) and not rule.startswith("#")]
