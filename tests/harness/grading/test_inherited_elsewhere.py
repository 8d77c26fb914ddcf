"""Tests that a file gets from another are contradicted there, for whoever runs them alone."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lego_harness.grading.contradict import contradictable, contradicted

BASE = """ONE = 1

class Base:
    def test_it(self):
        assert self.given + ONE == self.wanted

    def test_more(self):
        assert ONE == 1
"""
HEIRS = """ONE = 'another'

class TestOne({base}):
    given, wanted = 1, 2

class TestTwo(TestOne):
    given = 2
    wanted = 3
"""
WAYS = {
    "by name": {"base.py": BASE, "test_x.py": "from base import Base\n" + HEIRS},
    "by another name": {"base.py": BASE, "test_x.py": "from base import Base as B\n" + HEIRS},
    "by its module": {"base.py": BASE, "test_x.py": "import base\n" + HEIRS},
    "by everything": {"base.py": BASE, "test_x.py": "from base import *\n" + HEIRS},
    "beside a case": {
        "base.py": BASE,
        "test_x.py": "import unittest\nfrom base import Base\n" + HEIRS,
    },
    "by a third file": {
        "first.py": BASE,
        "base.py": "from first import Base\n",
        "test_x.py": "from base import Base\n" + HEIRS,
    },
    "by a class between": {
        "first.py": BASE,
        "base.py": "import first\nclass Base(first.Base):\n    pass\n",
        "test_x.py": "from base import Base\n" + HEIRS,
    },
}
SPELT = {"beside a case": "unittest.TestCase, Base", "by another name": "B", "by its module": "base.Base"}
ONE, TWO = "test_x.py::TestOne::test_it", "test_x.py::TestTwo::test_it"


def outcomes(
    files: Mapping[str, bytes], folder: Path, monkeypatch: pytest.MonkeyPatch, *tests: str
) -> list[bool]:
    """Which tests of `test_x.py` pass, each a class and a method."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_bytes(text)
        monkeypatch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    monkeypatch.syspath_prepend(folder)
    module = importlib.import_module("test_x")
    return [_passes(module, test) for test in tests]


def _passes(module: Any, test: str) -> bool:
    kind, _, name = test.partition(".")
    try:
        getattr(getattr(module, kind)(), name)()
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("way", WAYS)
def test_what_is_inherited_from_another_file_is_contradicted_for_one_class_alone(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {n: t.format(base=SPELT.get(way, "Base")).encode() for n, t in WAYS[way].items()}
    assert contradictable(files, [ONE, TWO]) == {ONE: 1, TWO: 1}
    for number, flips in enumerate([(True, False), (False, True), (False, False)]):
        changed = contradicted(
            files, {ONE: (flips[0],), TWO: (flips[1],)}, Random(number), delegated=frozenset()
        )
        names = ("TestOne.test_it", "TestTwo.test_it", "TestOne.test_more", "TestTwo.test_more")
        found = outcomes({**files, **changed}, tmp_path / str(number), monkeypatch, *names)
        assert found == [not flips[0], not flips[1], True, True]


SHARED = {
    "test_a.py": b"class TestA:\n    def test_it(self):\n        assert f() == 1\n\ndef test_f():\n    assert f() == 1\n",
    "test_b.py": b"from test_a import TestA, test_f\n\nclass TestB(TestA):\n    pass\n",
}


def test_what_another_file_runs_as_well_is_left_as_it_is() -> None:
    """The same object would be contradicted there too, and honest work lose what it passes."""
    nodes = ["test_a.py::TestA::test_it", "test_a.py::test_f", "test_b.py::TestB::test_it"]
    assert contradictable(SHARED, nodes) == {"test_b.py::TestB::test_it": 1}
    alone = {"test_a.py": SHARED["test_a.py"], "test_c.py": b"import test_a\n"}
    assert set(contradictable(alone, nodes)) == set(nodes[:2])


@pytest.mark.parametrize(
    "line",
    ["from project.testing import Base", "from tests.base import Base", "from . import Base", "import base"],
)
def test_what_is_not_in_these_files_is_not_known(line: str) -> None:
    files = {"__init__.py": b"", "base.py": BASE.encode(), "test_x.py": f"{line}\n{HEIRS}".encode()}
    files = {name: text.replace(b"{base}", b"Base") for name, text in files.items()}
    assert contradictable(files, [ONE]) == {}


def test_packages_are_followed_as_their_imports_say(tmp_path: Path) -> None:
    files = {
        "__init__.py": b"",
        "unit/__init__.py": b"",
        "common/__init__.py": b"",
        "common/base.py": BASE.encode(),
        "unit/test_x.py": f"from ..common.base import Base\n{HEIRS}".replace("{base}", "Base").encode(),
    }
    assert list(contradictable(files, [f"unit/{ONE}"])) == [f"unit/{ONE}"]
    changed = contradicted(files, {f"unit/{ONE}": (True,)}, Random(0))
    assert set(changed) == {"common/base.py", "unit/test_x.py"}
