"""Where a project keeps its modules and its tests, found from its files alone.

Invariant: modules and tests are disjoint, and a file counts as a module only if an agent's change of it would be
kept (`grading/patch.py`). Runs nothing, guesses nothing: what is not found is a UsageError.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from lego_harness.errors import UsageError
from lego_harness.grading.patch import TEST_FOLDERS
from lego_harness.grading.toolchain import PACKAGES
from lego_harness.synthesis.catalogue import Pin
from lego_harness.synthesis.sdists import pinned, project_files
from lego_harness.tasks.folder import is_test_file

_SRC = """import os as _os
import sys as _sys

_sys.path.insert(0, _os.path.join(_os.getcwd(), "src"))
"""
"""Put at the start of what is imported first of a test folder: does what an editable installation would do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """One unpacked project."""

    pin: Pin
    files: Mapping[str, bytes]
    """All of it, by path."""
    packages: tuple[str, ...]
    """Names to import."""
    modules: tuple[str, ...]
    """Paths of its own Python files."""
    tests: str
    """Path of its folder of tests."""
    has_src: bool
    """Whether its packages are in `src`."""

    def test_files(self) -> dict[str, bytes]:
        """Everything below the test folder, by path in it, ready to be run from elsewhere."""
        start = f"{self.tests}/"
        files = {n.removeprefix(start): data for n, data in self.files.items() if n.startswith(start)}
        if self.has_src:
            first = "__init__.py" if "__init__.py" in files else "conftest.py"
            files[first] = _with_src(files.get(first, b""))
        return files


def read_project(said: str) -> Project:
    """The project that a person named; raises UsageError, with what is missing, or SetupError."""
    pin, files = pinned(said), project_files(said)
    has_src = any(re.fullmatch(r"src/[^/]+(/__init__)?\.py", name) for name in files)
    root = "src/" if has_src else ""
    packages = _packages(pin, files, root)
    if taken := sorted({*packages} & {*PACKAGES, "pytest"}):
        raise UsageError(f"{pin.name}: {taken[0]} belongs to the test runner, which brings its own")
    modules = tuple(name for name in sorted(files) if _is_module(name, root, packages))
    if not modules:
        raise UsageError(f"{pin.name}: found no Python package {packages} in its archive")
    tests = _tests_folder(files, root, packages)
    if not tests:
        raise UsageError(f"{pin.name}: its archive has no folder of tests with test_*.py in it")
    return Project(pin=pin, files=files, packages=packages, modules=modules, tests=tests, has_src=has_src)


def _packages(pin: Pin, files: Mapping[str, bytes], root: str) -> tuple[str, ...]:
    """Names that the archive's metadata gives, or the project's own."""
    told = [text for name, text in files.items() if name.endswith(".egg-info/top_level.txt")]
    names = {*told[0].decode("utf-8", "replace").split()} if told else set[str]()
    names.add(re.sub(r"[-.]+", "_", pin.name))
    lower = {name.lower() for name in names}
    tops = {PurePosixPath(name.removeprefix(root)).parts[0].removesuffix(".py") for name in files}
    return tuple(sorted(top for top in tops if top.lower() in lower - TEST_FOLDERS))


def _is_module(name: str, root: str, packages: tuple[str, ...]) -> bool:
    path = PurePosixPath(name.removeprefix(root))
    is_test = is_test_file(Path(path)) or bool(TEST_FOLDERS & {part.lower() for part in path.parts[:-1]})
    is_ours = name.startswith(root) and path.parts[0].removesuffix(".py") in packages
    return path.suffix == ".py" and is_ours and not is_test and path.name != "conftest.py"


def _tests_folder(files: Mapping[str, bytes], root: str, packages: tuple[str, ...]) -> str:
    places = [
        "tests",
        "test",
        *(f"{root}{package}/{name}" for package in packages for name in ("tests", "test")),
    ]
    found = (
        place
        for place in places
        for name in files
        if name.startswith(f"{place}/") and is_test_file(Path(name))
    )
    return next(found, "")


def _with_src(module: bytes) -> bytes:
    """Future imports come first in any file."""
    lines = module.decode("utf-8", "replace").splitlines(keepends=True)
    first = [line for line in lines if line.startswith("from __future__")]
    return "".join([*first, _SRC, *(line for line in lines if line not in first)]).encode()
