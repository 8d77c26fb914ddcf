"""What of the agent's work is graded, and how its change is shown to people.

`graded_tree` starts from the task's own workspace and applies the agent's changed, added and deleted
files, save those on the test side: they are reverted and named. Invariants: both trees are plain
path → bytes maps of regular files; no git and no link of the agent's is ever followed; the time that it takes
grows with what the agent left, and with nothing squared.
"""

from __future__ import annotations

import difflib
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from lego_harness.grading.git_history import HISTORIES
from lego_harness.sandbox.base import CACHES

MAX_PATCH_CHARS = 65_536
_CUT = f"… cut at {MAX_PATCH_CHARS} characters"
_MAX_SHOWN_BYTES = 100_000
_MAX_SHOWN_LINES = 2_000
_MAX_TOML_BYTES = 100_000
"""Of what is parsed: a dotted key of n parts takes n² steps."""
_BY_PRODUCTS = {*HISTORIES, *CACHES}
TEST_FOLDERS = {"test", "tests", "testing"}
"""Whose files are tests, in lower case: SWE-bench's word for what goes into a test patch."""
_TEST_DATA = re.compile(
    r"(unit|integration|functional)?[_-]?tests?[_-]?(data|files|cases?|suites?|fixtures|resources|assets|inputs|outputs)"
    r"|_*snapshots_+|goldens?([_-]?files)?|cassettes"
)
"""Folders of what tests compare with, beside them or not, in lower case."""
_RUNNER_FILES = {
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "tox.ini",
    "setup.cfg",
    "sitecustomize.py",
    "usercustomize.py",
    "pyvenv.cfg",
}
_RUNNER_MODULES = {
    "pytest",
    "_pytest",
    "pluggy",
    "iniconfig",
    "packaging",
    "pygments",
    "py",
    "exceptiongroup",
    "tomli",
    "sitecustomize",
    "usercustomize",
}
_INSTALLED = {".tox", ".nox", ".eggs", "node_modules"}
"""Folders that tools install into; new ones are by-products, as environments of Python are, under whatever name."""
_BYTECODE = {".pyc", ".pyo"}
_LOADED_UNSEEN = {".pth", ".so", ".pyd", ".egg-link"}
_METADATA = {".dist-info", ".egg-info"}
_ANNOUNCEMENTS = "entry_points.txt"
"""What of a package's metadata has an effect: the rest, which an installation in place leaves, is a by-product."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GradedTree:
    """The files that are graded."""

    files: dict[str, bytes]
    reverted: tuple[str, ...]
    """`path (reason)` for every change that was not taken over, by-products aside."""


def graded_tree(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> GradedTree:
    """Apply the agent's change of `before` into `after`, test-side paths left out."""
    files, refused = dict(before), dict[str, str]()
    own = {_top(path) for path in before if path.endswith(".py")}
    installed = {
        path.rpartition("/")[0] for path in after if path.endswith("/pyvenv.cfg") and path not in before
    }
    folders = Counter(above for path in files for above in _above(path))
    changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
    for path in sorted(changed, key=lambda path: path in after):  # deletions make room for additions
        reason = _refusal(path, before.get(path), after.get(path))
        if path not in before and _is_installed(path, installed):
            reason = ""
        elif path not in before and reason is None and _shadows(path, own):
            reason = "shadows a module of the test runner or of Python"
        if reason is None and path in after and (folders[path] or any(a in files for a in _above(path))):
            reason = "takes the place of a reverted file"
        if reason is not None:
            refused[path] = reason
        elif path in after:
            folders.update(_above(path) if path not in files else ())
            files[path] = after[path]
        else:
            folders.subtract(_above(path))
            del files[path]
    reverted = [f"{path} ({reason})" for path, reason in sorted(refused.items()) if reason]
    return GradedTree(files=files, reverted=tuple(reverted))


def make_patch(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """Unified diff of the whole change for people; bounded, control characters replaced."""
    shown: list[str] = []
    left = MAX_PATCH_CHARS
    for path in sorted({*before, *after}):
        if before.get(path) == after.get(path) or is_by_product(path):
            continue
        for line in _file_diff(path, before.get(path), after.get(path)):
            left -= len(line) + 1
            if left < 0:
                return "\n".join([*shown, _CUT, ""])
            shown.append(line)
    return "\n".join([*shown, ""]) if shown else ""


def is_whole_patch(patch: str) -> bool:
    """Whether `make_patch` showed the whole change."""
    return not patch.endswith(f"{_CUT}\n") and "\n@@ not shown: " not in patch


def printable(text: str) -> str:
    """Control characters and lone surrogates replaced; newlines and tabs are kept by callers' splits."""
    return "".join(c if c == "\t" or c.isprintable() else "�" for c in text)


def has_more_folders(paths: Iterable[str], bound: int) -> bool:
    """Whether files lie in more than so many folders altogether."""
    found = set[str]()
    for path in paths:
        found.update(_above(path))
        if len(found) > bound:
            return True
    return False


def _above(path: str) -> Iterator[str]:
    """The folders that a file lies in."""
    end = path.find("/")
    while end != -1:
        yield path[:end]
        end = path.find("/", end + 1)


def _refusal(path: str, old: bytes | None, new: bytes | None) -> str | None:
    """Why a change is not graded: a reason to report, empty for by-products, None to take it."""
    if is_by_product(path):
        return ""
    parts = path.split("/")
    name, suffix = parts[-1].lower(), PurePosixPath(parts[-1].lower()).suffix
    if any(is_test_folder(part) for part in parts[:-1]) or _is_test_file(name):
        return "test file"
    if name in _RUNNER_FILES:
        return "test runner configuration"
    if any(part.lower().endswith(tuple(_METADATA)) for part in parts[:-1]):
        return "loaded without being imported" if name == _ANNOUNCEMENTS or old is not None else ""
    if suffix in _LOADED_UNSEEN | _METADATA:
        return "loaded without being imported"
    if name == "pyproject.toml" and _is_other_table(old, new):
        return "test runner configuration"
    return None


def is_test_folder(name: str) -> bool:
    """Whether what lies in a folder of that name is tests, or what they compare with."""
    return name.lower() in TEST_FOLDERS or _TEST_DATA.fullmatch(name.lower()) is not None


def is_by_product(path: str) -> bool:
    """Whether tools leave it, and nobody's work is in it."""
    parts = PurePosixPath(path).parts
    return bool(_BY_PRODUCTS & set(parts)) or PurePosixPath(path).suffix in _BYTECODE


def _is_test_file(name: str) -> bool:
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))


def _shadows(path: str, own: AbstractSet[str]) -> bool:
    """Whether a new module may be taken for another's; in a package of the task's own it is the task's."""
    return path.endswith(".py") and _top(path) in (_RUNNER_MODULES | sys.stdlib_module_names) - own


def _top(path: str) -> str:
    """The module at the root that a file is, or is part of."""
    return path.partition("/")[0].partition(".")[0]


def _is_installed(path: str, roots: AbstractSet[str]) -> bool:
    return bool(_INSTALLED & set(path.split("/")[:-1])) or any(above in roots for above in _above(path))


def _is_other_table(old: bytes | None, new: bytes | None) -> bool:
    """Whether [tool.pytest] differs; unreadable and huge files equal nothing but themselves."""
    if max(len(old or b""), len(new or b"")) > _MAX_TOML_BYTES:
        return old != new
    try:
        return _pytest_table(old) != _pytest_table(new)
    except RecursionError:  # nested deeper than any table that somebody wrote
        return old != new


def _pytest_table(content: bytes | None) -> Any:
    try:
        return tomllib.loads((content or b"").decode()).get("tool", {}).get("pytest")
    except (ValueError, AttributeError):
        return content


def _file_diff(path: str, old: bytes | None, new: bytes | None) -> Iterator[str]:
    name = printable(path)
    yield f"--- {'/dev/null' if old is None else 'a/' + name}"
    yield f"+++ {'/dev/null' if new is None else 'b/' + name}"
    before, after = _lines(old), _lines(new)
    if before is None or after is None:
        yield f"@@ not shown: {len(old or b'')} → {len(new or b'')} bytes, binary or large @@"
        return
    lines = difflib.unified_diff(before, after, lineterm="")
    yield from (printable(line) for line in list(lines)[2:])


def _lines(content: bytes | None) -> list[str] | None:
    """Lines of a text that is small enough to compare; None for others."""
    if content is None:
        return []
    if len(content) > _MAX_SHOWN_BYTES or b"\0" in content:
        return None
    try:
        lines = content.decode("utf-8").splitlines()
    except UnicodeDecodeError:
        return None
    return lines if len(lines) <= _MAX_SHOWN_LINES else None
