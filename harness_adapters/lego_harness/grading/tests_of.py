"""Where the definition of a test stands in its file, by the name that pytest gives it.

At the top or in a class, also below an `if` or a `try`. What a class gets from another of the file is written into it
first (`with_inherited`): so it is found, and changed for that class alone. Invariants: no definition is given where two
could be meant; only what means the same in another class is copied. Runs nothing.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef


def found_test(tree: ast.Module, function: str) -> Function | None:
    """The definition of `file::Class::function`; None where it is made, defined twice or from another file."""
    body: list[ast.stmt] = tree.body
    *classes, name = function.split("::")[1:]
    for wanted in classes:
        inner = [node for node in _classes(body) if node.name == wanted]
        body = inner[0].body if len(inner) == 1 else []
    found = [node for node in _statements(body) if isinstance(node, Function) and node.name == name]
    return found[0] if len(found) == 1 else None


def with_inherited(tree: ast.Module) -> ast.Module:
    """The same tests, those that a class inherits from classes before it in the file written into it as well."""
    known: dict[str, ast.ClassDef] = {}
    for derived in _classes(tree.body):
        for base in derived.bases:
            above = known.get(base.id) if isinstance(base, ast.Name) else None
            if above is None:  # what it brings, and in place of what, is not known here
                break
            own = {node.name for node in derived.body if isinstance(node, Function | ast.ClassDef)}
            own |= {node.id for node in ast.walk(derived) if isinstance(node, ast.Name)}
            derived.body += [
                copy.deepcopy(node)
                for node in above.body
                if isinstance(node, Function) and node.name not in own and _means_the_same(node)
            ]
        known[derived.name] = derived
    return tree


def _means_the_same(test: Function) -> bool:
    """Whether nothing of a test is looked up in the class that it was written in."""
    has_defaults = bool(test.args.defaults or any(test.args.kw_defaults))
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    is_private = any(name.startswith("__") and not name.endswith("__") for name in names)
    is_bound = is_private or bool(names & {"super", "__class__"})
    return test.name.startswith("test") and not (test.decorator_list or has_defaults or is_bound)


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
