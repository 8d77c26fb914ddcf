"""Where the definition of a test stands in its file, by the name that pytest gives it.

At the top or in a class, also below an `if` or a `try`. What its class gets from another of the file is copied into it:
so it is found, and changed for that class alone. Invariants: no definition is given where two could be meant; only what
means the same in another class is copied, and before anything is changed. Runs nothing.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef


def found_tests(tree: ast.Module, functions: Iterable[str]) -> dict[str, Function]:
    """The definitions of `file::Class::function`; none of what is made, defined twice or from another file, or of what
    another class of the file runs as well and cannot have a copy of."""
    found = {function: _found(tree, function.split("::")[1:]) for function in functions}
    return {
        function: definition
        for function, definition in found.items()
        if definition and _is_alone(tree, function.split("::")[1:])
    }


def _is_alone(tree: ast.Module, path: list[str]) -> bool:
    """Whether a change of the definition is one for its class alone; classes that inherit it get their own first."""
    *classes, name = path
    heirs = _heirs(tree, classes[-1]) if classes else []
    return all(_switches(heir, name) or _found(tree, [heir.name, name]) is not None for heir in heirs)


def _heirs(tree: ast.Module, name: str) -> list[ast.ClassDef]:
    """Classes of the file that are made of one of that name, and those made of these."""
    known, heirs = {name}, list[ast.ClassDef]()
    for node in _classes(tree.body):
        if known & {base.id for base in node.bases if isinstance(base, ast.Name)}:
            known.add(node.name)
            heirs.append(node)
    return heirs


def _switches(derived: ast.ClassDef, name: str) -> bool:
    """Whether a class names what it would inherit: switched off, or another."""
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(derived))


def _found(tree: ast.Module, path: list[str]) -> Function | None:
    scope: ast.Module | ast.ClassDef = tree
    *classes, name = path
    for wanted in classes:
        inner = [node for node in _classes(scope.body) if node.name == wanted]
        if len(inner) != 1:
            return None
        (scope,) = inner
    found = _named(scope, name)
    if not found and isinstance(scope, ast.ClassDef) and (inherited := _inherited(tree, scope, name)):
        found = [copy.deepcopy(inherited)]
        scope.body += found
    return found[0] if len(found) == 1 else None


def _inherited(tree: ast.Module, derived: ast.ClassDef, name: str) -> Function | None:
    """What a class gets from those before it in the file, the first of its bases first."""
    if _switches(derived, name):
        return None
    earlier = tree.body[: tree.body.index(derived)] if derived in tree.body else []
    known = {node.name: node for node in _classes(earlier)}
    for base in derived.bases:
        above = known.get(base.id) if isinstance(base, ast.Name) else None
        if above is None:  # what it brings, and in place of what, is not known here
            return None
        if found := _named(above, name) or [one for one in [_inherited(tree, above, name)] if one]:
            return found[0] if len(found) == 1 and _means_the_same(found[0]) else None
    return None


def _named(scope: ast.Module | ast.ClassDef, name: str) -> list[Function]:
    return [node for node in _statements(scope.body) if isinstance(node, Function) and node.name == name]


def _means_the_same(test: Function) -> bool:
    """Whether nothing of a test is looked up in the class that it was written in."""
    has_defaults = bool(test.args.defaults or any(test.args.kw_defaults))
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    is_private = any(name.startswith("__") and not name.endswith("__") for name in names)
    is_bound = is_private or bool(names & {"super", "__class__"})
    return not (test.decorator_list or has_defaults or is_bound)


def _classes(body: list[ast.stmt]) -> list[ast.ClassDef]:
    return [node for node in _statements(body) if isinstance(node, ast.ClassDef)]


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Those of a body, and of what is chosen between in it."""
    for statement in body:
        yield statement
        match statement:
            case ast.If(body=one, orelse=other):
                yield from _statements([*one, *other])
            case ast.Try(body=one, handlers=handlers, orelse=other, finalbody=last):
                inner = [part for handler in handlers for part in handler.body]
                yield from _statements([*one, *inner, *other, *last])
            case _:
                pass
