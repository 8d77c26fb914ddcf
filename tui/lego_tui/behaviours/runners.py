"""Which commands run tests. Owns the names of test runners. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

_PYTHON = r"(?:\S*/)?python[\d.]*\s+(?:-\S+\s+)*"
_RUNNERS = re.compile(
    r"(?:(?:\S*/)?(?:pytest|py\.test|tox|nox|nosetests|nose2|jest|vitest|mocha|rspec|phpunit|ctest|runtests\.py)\b"
    r"|" + _PYTHON + r"-m\s+(?:pytest|unittest|tox|nox|nose2?|doctest|coverage\s+run\s+(?:-\S+\s+)*-m)\b"
    r"|(?:\S*/)?coverage\s+run\s+(?:-\S+\s+)*-m\b"
    r"|" + _PYTHON + r"(?:\S*manage\.py\s+test|\S*runtests\.py|setup\.py\s+test|\S*bin/test)\b"
    r"|(?:npm|yarn|pnpm|bun)\s+(?:-\S+\s+)*(?:run\s+)?test|npm\s+t\b|npx\s+(?:jest|vitest|mocha)|node\s+--test"
    r"|(?:cargo|go|dotnet|mvn|\./mvnw|gradle|\./gradlew|bazel|swift|mix|rake|sbt|zig|deno)\s+(?:-\S+\s+)*test"
    r"|make\s+(?:\S+\s+)*?(?:check|test)\S*)"
)
_FILES = re.compile(
    r"(?:(?:(?:ba|z|da)?sh\s+(?:-\S+\s+)*|" + _PYTHON + r")?(?:\S*/)?(?:run[-_]?)?(?:all[-_]?|unit[-_]?)?tests?\.(?:sh|bash|py)\b"
    r"|" + _PYTHON + r"(?:(?:\S*/)?test_\w+\.py\b|-m\s+(?:\w+\.)*test_\w+(?:\s|$)))"
)  # fmt: skip
"""A script or a file of tests by itself."""
BUILDERS = frozenset(["make", "gmake", "just", "ninja"])
"""What they run stands in a file."""
_ASKS = frozenset(
    ["--help", "--version", "--collect-only", "--co", "--dry-run", "--just-print", "--listTests", "--fixtures", "--markers"]
)  # fmt: skip
_IN_TEXT = re.compile(r"\b(?:pytest|unittest)\.main\(|\bTextTestRunner\(|\bdoctest\.testmod\(")


def is_test_run(words: Sequence[str]) -> bool:
    """Whether a command is a test runner's, or runs a file of tests by itself."""
    text = " ".join(words)
    return _RUNNERS.match(text) is not None or _FILES.match(text) is not None


def says_something(words: Sequence[str]) -> bool:
    """Whether it is a runner that says something whatever comes of it; a file by itself may be silent."""
    text = " ".join(words)
    return _RUNNERS.match(text) is not None and _FILES.match(text) is None


def is_test_program(text: str) -> bool:
    """Whether a program calls a test runner."""
    return _IN_TEXT.search(text) is not None


def is_question(words: Sequence[str]) -> bool:
    """Whether it is only asked something (`--version`, `--collect-only`, `make -n`) and runs no test."""
    return not _ASKS.isdisjoint(words) or (words[0] in BUILDERS and "-n" in words)
