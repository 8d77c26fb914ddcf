"""Assertions that a test leaves to a function of its own file, or to a method of its class: which it calls, and a copy.

    def check(a, wanted): assert add(a) == wanted
    def test_one(): check(1, WANTED)

The copy is for this test alone, so that it can be contradicted while every other test has the original. Invariant: only
what every passing run calls, and what runs when it is called, is named. Runs nothing.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lego_harness.grading.reached import reached
from lego_harness.grading.suite import statements
from lego_harness.grading.tests_of import Function


@dataclass(frozen=True, slots=True)
class PassedOn:
    """One such call."""

    scope: ast.Module | ast.ClassDef
    function: ast.FunctionDef
    call: ast.Name | ast.Attribute
    """Names the function."""

    def own(self, test: Function) -> ast.FunctionDef:
        """A copy that this call goes to from now on."""
        own = copy.deepcopy(self.function)
        own.name = (
            "v" + hashlib.sha256(f"{test.name}{own.name}{len(self.scope.body)}".encode()).hexdigest()[:9]
        )
        self.scope.body.append(own)
        if isinstance(self.call, ast.Name):
            self.call.id = own.name
        else:
            self.call.attr = own.name
        return own


def passed_on(tree: ast.Module, test: Function, asserts: Callable[[ast.FunctionDef], bool]) -> list[PassedOn]:
    """The calls of a test to what `asserts`."""
    own = next((n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and test in n.body), None)
    called = (_called(tree, own, statement) for statement in reached(tree, test, lambda _: False))
    return [call for call in called if call and _runs(call.function) and asserts(call.function)]


def _called(tree: ast.Module, own: ast.ClassDef | None, statement: ast.stmt) -> PassedOn | None:
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) as call)):
            scope: ast.Module | ast.ClassDef = tree
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name) as call)) if (
            own
        ):
            scope = own
        case _:
            return None
    found = list(_named(scope, name))
    return PassedOn(scope, found[0], call) if len(found) == 1 else None


def _named(scope: ast.Module | ast.ClassDef, name: str) -> Iterator[ast.FunctionDef]:
    return (
        node for node in statements(scope.body) if isinstance(node, ast.FunctionDef) and node.name == name
    )


def _runs(function: ast.FunctionDef) -> bool:
    """Whether to call it is to run it."""
    return not function.decorator_list and not any(
        isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(function)
    )
