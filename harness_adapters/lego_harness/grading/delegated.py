"""Assertions that a test leaves to a helper: `check(1, 2, 3)`, `self.assertRenders(source, wanted)`.

What the helper compares is not known here, and the helper may be the project's own, which an agent can change. One of
the literals that it is given becomes another: who computes must fail then, and who made the helper agree does not.
Invariant: only what every passing run calls is changed; that it matters is for the reference to show. Runs nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from random import Random

from lego_harness.grading.other_values import other_than, replaced
from lego_harness.grading.reached import reached
from lego_harness.grading.tests_of import Function

_ASSERTING = re.compile(
    r"_*(assert|check|verif|expect|ensure|validat|compar|test|eq|ok|should|must)", re.IGNORECASE
)


def delegations(tree: ast.Module, function: Function) -> list[ast.stmt]:
    """Statements that call something by the name of an assertion and give it a literal."""
    found = reached(tree, function, lambda _: False)
    return [statement for statement in found if _is_asserting(statement) and any(_literals(statement))]


def contradict_delegation(statement: ast.stmt, rng: Random) -> None:
    """One of its literals becomes another."""
    literal = rng.choice(list(_literals(statement)))
    replaced(statement, literal, other_than(literal, rng))


def _is_asserting(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return _ASSERTING.match(name) is not None
        case _:
            return False


def _literals(node: ast.AST) -> Iterator[ast.Constant]:
    """Numbers and texts in what is given, those aside that only a format holds."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | str | bytes):
        yield node
    elif not isinstance(node, ast.JoinedStr):
        for inner in ast.iter_child_nodes(node):
            yield from _literals(inner)
