"""A tiny task folder: `add` subtracts, the instruction says to repair it."""

from __future__ import annotations

from pathlib import Path

from lego_harness.tasks.folder import load_task
from lego_harness.types import Task

BROKEN = "def add(a, b):\n    return a - b\n\n\ndef twice(a):\n    return 2 * a\n"
FIXED = BROKEN.replace("a - b", "a + b")
TESTS = """import pytest
from calc import add, twice
from wanted import SUM


@pytest.mark.parametrize(("a", "b"), [(1, 2), (5, -5)])
def test_add(a, b):
    assert add(a, b) == SUM[a, b]


def test_twice():
    assert twice(4) == 8
"""
FILES = {
    "task.toml": '[metadata]\nsplit = "train"\ntags = ["tiny"]\n[verifier]\ntimeout_sec = 20\n',
    "instruction.md": "Repair calc.py: add must add.\n",
    "environment/repo/calc.py": BROKEN,
    "environment/repo/tests/test_visible.py": "from calc import twice\n\ndef test_twice():\n    assert twice(1) == 2\n",
    "tests/test_hidden.py": TESTS,
    "tests/wanted.py": "SUM = {(1, 2): 3, (5, -5): 0}\n",
    "solution/solve.sh": "set -e\nsed -i 's/a - b/a + b/' calc.py\n",
}


def write_files(folder: Path, **changed: str | None) -> Path:
    """The task under `folder`; keywords replace a file's text or, with None, leave it out."""
    for name, text in {**FILES, **changed}.items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder


def repair_task(folder: Path, **changed: str | None) -> Task:
    """The same, loaded."""
    return load_task(write_files(folder, **changed))
