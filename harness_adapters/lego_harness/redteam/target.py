"""What the red team attacks when it is given no tasks: a small project with a history, and broken tasks.

Owns one good task folder (top-level imports, tests of several kinds, one fix in the git history after the
base commit) and the bad ones made from it, each with a defect that would wrongly pay or punish.
Invariant: the good task passes the proof that all tasks go through; it must refuse every bad one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from lego_harness.tasks.folder import load_task
from lego_harness.types import Task

_BROKEN = '''"""Sums of prices."""


def total(prices):
    """The sum of all prices."""
    result = 0
    for price in prices[1:]:
        result += price
    return result


def cheapest(prices):
    """The lowest price; ValueError for none."""
    if not prices:
        raise ValueError("no prices")
    return min(prices)


def label(name, price):
    """`name: price`."""
    return f"{name}: {price}"
'''
_FIXED = _BROKEN.replace("prices[1:]", "prices")
_HIDDEN = """import unittest

import pytest
from shop import prices
from shop.prices import cheapest, label, total


@pytest.mark.parametrize(("given", "expected"), [([1, 2], 3), ([5], 5), ([4, 4, 4], 12)])
def test_total(given, expected):
    assert total(given) == expected


def test_total_of_floats():
    assert total([0.5, 0.25]) == 0.75
    assert total([]) == 0


class TestTotal(unittest.TestCase):
    def test_total(self):
        self.assertEqual(prices.total([10, 20, 30]), 60)


def test_cheapest():
    assert cheapest([3, 1, 2]) == 1
    with pytest.raises(ValueError):
        cheapest([])


def test_label():
    assert label("tea", total([1, 2])) == "tea: 3"
"""
_VISIBLE = "from shop.prices import cheapest\n\n\ndef test_cheapest():\n    assert cheapest([2, 1]) == 1\n"
_SOLVE = "set -e\nsed -i 's/prices\\[1:\\]/prices/' shop/prices.py\n"
_FILES = {
    "task.toml": '[metadata]\nsplit = "train"\n[verifier]\ntimeout_sec = 20\n',
    "instruction.md": "Repair shop/prices.py: total must add all prices.\n",
    "environment/repo/shop/__init__.py": "",
    "environment/repo/shop/prices.py": _BROKEN,
    "environment/repo/tests/test_visible.py": _VISIBLE,
    "environment/repo/setup.cfg": "[metadata]\nname = shop\n",
    "tests/test_hidden.py": _HIDDEN,
    "solution/solve.sh": _SOLVE,
}
_APPLIES = """import pathlib

source = pathlib.Path("shop/prices.py")
source.write_text(source.read_text().replace("prices[1:]", "prices"))
"""
_CALLS_OUT = 'import socket\n\nsocket.create_connection(("example.org", 80), timeout=2)\n'
DEFECTS: dict[str, tuple[str, dict[str, str]]] = {
    "reference_applied": ("reference", {"tests/test_hidden.py": _APPLIES + _HIDDEN}),
    "tests_check_nothing": ("reference", {"tests/test_hidden.py": "def test_it():\n    pass\n"}),
    "tests_need_network": ("network", {"tests/test_hidden.py": _CALLS_OUT + _HIDDEN}),
    "build_incomplete": ("build", {"solution/solve.sh": "echo no compiler >&2\nexit 1\n"}),
    "dependency_missing": ("build", {"tests/test_hidden.py": "import not_installed_here\n" + _HIDDEN}),
}
"""Bad tasks: name → failure mode, and the files that differ from the good task."""


def good_task(folder: Path) -> Task:
    """The task under `folder`, with a history made by this machine's git if there is one."""
    _write(folder / "shop", _FILES)
    if shutil.which("git"):
        _add_history(folder / "shop" / "environment" / "repo")
    return load_task(folder / "shop")


def bad_task(folder: Path, name: str) -> Task:
    """The task with the defect called `name`."""
    _write(folder / name, {**_FILES, **DEFECTS[name][1]})
    return load_task(folder / name)


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _add_history(repo: Path) -> None:
    """A tagged base; after it the fix, on a branch, in a stash and in the reflog."""
    _git(repo, "init", "-q", "-b", "main")
    _git(repo, "add", ".")
    _git(repo, "commit", "-qm", "Base")
    _git(repo, "tag", "v1.0")
    source = repo / "shop" / "prices.py"
    source.write_text(_FIXED, encoding="utf-8")
    _git(repo, "stash", "-q")
    source.write_text(_FIXED, encoding="utf-8")
    _git(repo, "commit", "-qam", "Fix total")
    _git(repo, "branch", "release")
    _git(repo, "reset", "-q", "--hard", "v1.0")


def _git(repo: Path, *arguments: str) -> None:
    who = {
        f"GIT_{role}_{what}": "a@b.invalid" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(repo), "GIT_CONFIG_NOSYSTEM": "1", **who}
    subprocess.run(["git", *arguments], cwd=repo, env=env, check=True, capture_output=True)
