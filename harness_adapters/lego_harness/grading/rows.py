"""Parametrized tests whose cases are literals: where each row keeps its expected value.

    @pytest.mark.parametrize(("a", "b", "wanted"), [(1, 2, 3), …])
    def test_add(a, b, wanted): assert add(a, b) == wanted

Invariant: a row is named only when changing its expected value must turn a pass into a failure: the
parameter stands alone on one side of an equality that every passing run reaches, and nowhere else;
and only when the table is this test's alone, so that no second copy of it says what was changed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one parametrized test, where they stand in its file."""

    rows: list[ast.expr]
    index: int | None
    """Of the expected value in a row; None where the row itself is the value."""

    def value(self, number: int) -> ast.expr:
        row = self.rows[number]
        return row if self.index is None else _elements(row)[self.index]

    def replace(self, number: int, value: ast.expr) -> None:
        if self.index is None:
            self.rows[number] = value
        else:
            _elements(self.rows[number])[self.index] = value


def rows_of(
    tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef, sites: Iterable[ast.stmt]
) -> Rows | None:
    """The rows behind an expected parameter; None where there are none."""
    calls = [c for c in function.decorator_list if isinstance(c, ast.Call) and _is_parametrize(c)]
    if len(calls) != 1 or len(calls[0].args) < 2:
        return None
    (call,), names = calls, _names(calls[0].args[0])
    found = [name for name in map(_compared_name, sites) if name in names]
    table = _literal_table(tree, call.args[1])
    if not found or table is None or num_uses(function, found[0]) != 1:
        return None
    index = names.index(found[0]) if len(names) > 1 else None
    if index is not None and not all(len(_elements(row)) == len(names) for row in table.elts):
        return None
    return Rows(table.elts, index)


def _is_parametrize(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "parametrize"


def _names(node: ast.expr) -> list[str]:
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return []
    names = value.split(",") if isinstance(value, str) else value
    return [str(name).strip() for name in names]


def _compared_name(statement: ast.stmt) -> str:
    """`x` of `assert … == x`; empty for other statements."""
    match statement:
        case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
            return next((side.id for side in (right, left) if isinstance(side, ast.Name)), "")
        case _:
            return ""


def _literal_table(tree: ast.Module, node: ast.expr) -> ast.List | ast.Tuple | None:
    """A list of literal rows: as written, or as assigned to a name that is used nowhere else."""
    if isinstance(node, ast.Name):
        values = [
            statement.value
            for statement in tree.body
            if isinstance(statement, ast.Assign)
            and any(isinstance(t, ast.Name) and t.id == node.id for t in statement.targets)
        ]
        if len(values) != 1 or num_uses(tree, node.id) != 2:  # the assignment and the decorator
            return None
        node = values[0]
    if not isinstance(node, ast.List | ast.Tuple) or not node.elts:
        return None
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return None
    return node


def _elements(row: ast.expr) -> list[ast.expr]:
    return row.elts if isinstance(row, ast.List | ast.Tuple) else []


def num_uses(scope: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> int:
    """How often a name stands in it, its decorators and parameters aside."""
    nodes = (node for statement in scope.body for node in ast.walk(statement))
    return sum(isinstance(node, ast.Name) and node.id == name for node in nodes)
