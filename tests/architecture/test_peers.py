"""The table of public issues names tests that exist, and every test of `tests/peers` stands in it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PEERS = TESTS / "peers"
NODE = re.compile(r"`(\S+\.py)::(\w+)`")
ISSUE = re.compile(r"[\w.-]+/[\w.-]+#\d+")
ROWS = [line for line in (PEERS / "README.md").read_text(encoding="utf-8").splitlines() if ISSUE.search(line)]
NODES = {node: row for row in ROWS for node in NODE.findall(row)}


@cache
def named_tests(path: Path) -> dict[str, str]:
    """Name → docstring of the tests of a file."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = (node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, functions))
    return {node.name: ast.get_docstring(node) or "" for node in found if node.name.startswith("test_")}


@pytest.mark.parametrize(("path", "name"), NODES, ids=lambda part: part)
def test_a_test_that_the_table_names_exists(path: str, name: str) -> None:
    assert (TESTS / path).is_file()
    assert name in named_tests(TESTS / path)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: ISSUE.search(row).group())
def test_a_row_says_where_its_issue_is_held(row: str) -> None:
    _, issues, wrong, held, _ = (cell.strip() for cell in row.split("|"))
    assert ISSUE.match(issues)
    assert wrong
    assert held


@pytest.mark.parametrize("path", sorted(PEERS.glob("test_*.py")), ids=lambda path: path.name)
def test_a_test_of_this_folder_names_an_issue_that_the_table_gives_it(path: Path) -> None:
    for name, said in named_tests(path).items():
        issue = ISSUE.match(said)
        assert issue, f"the docstring of {name} must begin with a public issue"
        assert issue.group() in NODES[f"peers/{path.name}", name]
