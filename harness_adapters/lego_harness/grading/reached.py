"""Statements that every passing run of a test function executes.

Down into `with` blocks, and into loops over what is written out and holds something. Invariant: behind a
statement that may leave the function or its loop early nothing counts; what a function defined inside does is its
own. Runs nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

_Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
_LEAVES = (ast.Return, ast.Yield, ast.YieldFrom)
_WRAPPERS = {"enumerate", "sorted", "reversed", "list", "tuple", "set"}
_VIEWS = {"items", "keys", "values"}


def reached(
    tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef, is_whole: Callable[[ast.stmt], bool]
) -> Iterator[ast.stmt]:
    """Every such statement; into one that `is_whole` is not looked."""
    names = {**_assigned(tree.body), **_assigned(function.body)}
    yield from _reached(function.body, names, is_whole, in_loop=False)


def reaches_end(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a run that passes does so at the end of its body."""
    return not any(_may_leave(statement, in_loop=False) for statement in function.body)


def _reached(
    body: list[ast.stmt],
    names: Mapping[str, ast.expr],
    is_whole: Callable[[ast.stmt], bool],
    *,
    in_loop: bool,
) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        if isinstance(statement, ast.With | ast.AsyncWith) and not is_whole(statement):
            yield from _reached(statement.body, names, is_whole, in_loop=in_loop)
        elif isinstance(statement, ast.For) and _is_filled(statement.iter, names):
            yield from _reached(statement.body, names, is_whole, in_loop=True)
        if _may_leave(statement, in_loop=in_loop):
            return


def _may_leave(statement: ast.stmt, *, in_loop: bool) -> bool:
    leaves = (*_LEAVES, ast.Break, ast.Continue) if in_loop else _LEAVES
    return any(isinstance(node, leaves) for node in _own(statement))


def _own(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if not isinstance(node, _Scope):
        for inner in ast.iter_child_nodes(node):
            yield from _own(inner)


def _assigned(body: list[ast.stmt]) -> dict[str, ast.expr]:
    """Names that get their value once, at the top."""
    pairs = [
        (statement.targets[0].id, statement.value)
        for statement in body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    ]
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if names.count(name) == 1}


def _is_filled(node: ast.expr, names: Mapping[str, ast.expr]) -> bool:
    """Whether a loop over it surely runs."""
    match node:
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            return any(not isinstance(part, ast.Starred) for part in parts)
        case ast.Dict(keys=keys):
            return any(key is not None for key in keys)
        case ast.Constant(value=str() | bytes() as text):
            return bool(text)
        case ast.Name(id=name):
            value = names.get(name)
            return value is not None and not isinstance(value, ast.Name) and _is_filled(value, names)
        case ast.Call(func=ast.Name(id="range"), args=[ast.Constant(value=int() as count)]):
            return count > 0
        case ast.Call(func=ast.Name(id="zip"), args=parts) if parts:
            return all(_is_filled(part, names) for part in parts)
        case ast.Call(func=ast.Name(id=name), args=[inner, *_]) if name in _WRAPPERS:
            return _is_filled(inner, names)
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[]) if name in _VIEWS:
            return _is_filled(inner, names)
        case _:
            return False
