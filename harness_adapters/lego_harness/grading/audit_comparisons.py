"""Classes that equal what they were not compared with, by syntax.

Invariant: looks at what a comparison returns and at what it reads of the other side, never at its name alone. One that
reads nothing but a type equals all of that type, which honest classes without content do too: a reason to look.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

_COMPARISONS = {
    *("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__contains__"),
    *("__instancecheck__", "__subclasscheck__"),
}
_CHANGING = {
    "append",
    "add",
    "pop",
    "remove",
    "discard",
    "extend",
    "update",
    "insert",
    "clear",
    "__setattr__",
}
_OF_TYPES = {"isinstance", "issubclass", "type", "hasattr"}


def blind_comparisons(tree: ast.Module) -> Iterator[str]:
    """What each such class or statement does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            if any(_is_blind(name, made) for name, made in _methods(node)):
                yield f"class {node.name} equals anything"
            if any(name in _COMPARISONS and _changes_itself(made) for name, made in _methods(node)):
                yield f"class {node.name} changes when it is compared"
        elif text := _by_name(node):
            yield f"sets {text} by name"


def _methods(node: ast.ClassDef) -> Iterator[tuple[str, ast.FunctionDef | ast.Lambda]]:
    for statement in node.body:
        match statement:
            case ast.FunctionDef(name=name):
                yield name, statement
            case ast.Assign(targets=targets, value=ast.Lambda() as made):
                yield from ((target.id, made) for target in targets if isinstance(target, ast.Name))
            case _:
                pass


def _by_name(node: ast.AST) -> str:
    """The comparison that is set other than by a definition in its class; mostly empty."""
    match node:
        case ast.Constant(value="__eq__"):
            return "__eq__"
        case ast.BinOp(
            left=ast.Constant(value=str() as one), op=ast.Add(), right=ast.Constant(value=str() as other)
        ):
            return one + other if one + other in _COMPARISONS else ""
        case ast.Assign(targets=[ast.Attribute(attr=name)]) if name in _COMPARISONS:
            return name
        case _:
            return ""


def _is_blind(name: str, method: ast.FunctionDef | ast.Lambda) -> bool:
    return name in _COMPARISONS and (_ignores_other(method) or _is_always_true(method))


def _ignores_other(method: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether it reads nothing of the other side, or its type alone."""
    other = [arg.arg for arg in method.args.args[1:2]]
    calls = [n for n in ast.walk(method) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    of_types = {id(arg) for call in calls if _name(call.func) in _OF_TYPES for arg in call.args}
    used = {
        _name(node) for node in ast.walk(method) if isinstance(node, ast.Name) and id(node) not in of_types
    }
    return not other or other[0] not in used


def _changes_itself(method: ast.FunctionDef | ast.Lambda) -> bool:
    """Whether what it says depends on how often it was asked."""
    own = {arg.arg for arg in method.args.args[:1]}
    for node in ast.walk(method):
        match node:
            case ast.Global() | ast.Nonlocal():
                return True
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()) if _root(node) in own:
                return True
            case ast.Call(func=ast.Attribute(attr=name, value=of)) if name in _CHANGING and _root(of) in own:
                return True
            case _:
                pass
    return False


def _root(node: ast.expr) -> str:
    """`x` of `x.a[0].b`."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return _name(node)


def _is_always_true(method: ast.FunctionDef | ast.Lambda) -> bool:
    if isinstance(method, ast.Lambda):
        returned: list[ast.expr | None] = [method.body]
    else:
        returned = [node.value for node in ast.walk(method) if isinstance(node, ast.Return)]
    return bool(returned) and all(isinstance(one, ast.Constant) and one.value is True for one in returned)


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""
