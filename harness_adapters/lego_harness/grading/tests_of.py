"""Where the definition of a test stands, by the name that pytest gives it.

At the top of its file or in a class, also below an `if` or a `try`. What its class gets from another, of its file or of
one that it imports from, is copied for it: so it is found, and changed for that class alone. A copy stays in the file
of what it is a copy of, where its names mean what they meant. Invariants: no definition is given where two could be
meant; only what means the same in another class is copied, and before anything is changed. Runs nothing.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from lego_harness.grading.suite import Suite, classes, statements

Function = ast.FunctionDef | ast.AsyncFunctionDef
_MAX_CLASSES = 32
"""Above each other."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """A test's own: a change of it is one of this test alone."""

    file: str
    """Whose names it uses; for a copy not that of the test."""
    tree: ast.Module
    """Of that file."""
    function: Function


def found_tests(suite: Suite, functions: Iterable[str]) -> dict[str, Definition]:
    """The definitions of `file::Class::function`; none of what is made, defined twice, or run by another class or file
    that cannot have a copy of it."""
    search = _Search(suite)
    names = {function: function.split("::") for function in functions}
    found = {function: search.found(file, path) for function, (file, *path) in names.items()}
    return {
        function: definition
        for function, definition in found.items()
        if definition and search.is_alone(names[function][0], names[function][1:])
    }


class _Search:
    def __init__(self, suite: Suite) -> None:
        self._suite = suite
        self._copies: dict[tuple[int, str], Definition] = {}
        """By class and name."""

    def is_alone(self, file: str, path: list[str]) -> bool:
        """Whether a change of the definition is one for its class alone; classes that inherit it get their own first."""
        *outer, name = path
        if self._suite.is_used_elsewhere(file, path[0]):
            return False
        heirs = _heirs(self._suite.tree(file), outer[-1]) if outer else []
        return all(_switches(heir, name) or self.found(file, [heir.name, name]) is not None for heir in heirs)

    def found(self, file: str, path: list[str]) -> Definition | None:
        tree = self._suite.tree(file)
        scope: ast.Module | ast.ClassDef = tree
        *outer, name = path
        for wanted in outer:
            inner = [node for node in classes(scope.body) if node.name == wanted]
            if len(inner) != 1:
                return None
            (scope,) = inner
        if known := self._copies.get((id(scope), name)):
            return known
        own = _named(scope, name)
        if own or isinstance(scope, ast.Module):
            return Definition(file=file, tree=tree, function=own[0]) if len(own) == 1 else None
        return self._copied(file, scope, name)

    def _copied(self, file: str, derived: ast.ClassDef, name: str) -> Definition | None:
        """A copy for the class of what it inherits."""
        inherited = self._inherited(file, derived, name)
        if inherited is None:
            return None
        base, above = inherited
        function = copy.deepcopy(above.function)
        if above.file == file:
            derived.body.append(function)
        else:
            function.name = "v" + hashlib.sha256(f"{file}::{derived.name}::{name}".encode()).hexdigest()[:9]
            above.tree.body.append(function)
            derived.body.append(_taken_over(base, name, function.name))
        self._copies[id(derived), name] = replace(above, function=function)
        return self._copies[id(derived), name]

    def _inherited(
        self, file: str, derived: ast.ClassDef, name: str, *, left: int = _MAX_CLASSES
    ) -> tuple[ast.expr, Definition] | None:
        """What a class gets from those above it, the first of its bases first, and from which of these."""
        if not left or _switches(derived, name):
            return None
        for base in derived.bases:
            found = self._suite.class_of(file, base, derived)
            if found is None and self._suite.brings_no_tests(file, base):
                continue
            if found is None:  # what it brings, and in place of what, is not known here
                return None
            where, above = found
            if known := self._copies.get((id(above), name)):
                return base, known
            if own := _named(above, name):
                is_fit = len(own) == 1 and _means_the_same(own[0])
                tree = self._suite.tree(where)
                return (base, Definition(file=where, tree=tree, function=own[0])) if is_fit else None
            if inner := self._inherited(where, above, name, left=left - 1):
                return base, inner[1]
        return None


def _taken_over(base: ast.expr, name: str, own: str) -> ast.stmt:
    """The line by which a class has its own form of a test of another file: one that lies beside it there."""
    test = f"{ast.unparse(base)}.{name}"
    return ast.parse(f"{name} = getattr({test}, '__globals__', {{}}).get({own!r}, {test})").body[0]


def _heirs(tree: ast.Module, name: str) -> list[ast.ClassDef]:
    """Classes of the file that are made of one of that name, and those made of these."""
    known, heirs = {name}, list[ast.ClassDef]()
    for node in classes(tree.body):
        if known & {base.id for base in node.bases if isinstance(base, ast.Name)}:
            known.add(node.name)
            heirs.append(node)
    return heirs


def _switches(derived: ast.ClassDef, name: str) -> bool:
    """Whether a class names what it would inherit: switched off, or another."""
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(derived))


def _named(scope: ast.Module | ast.ClassDef, name: str) -> list[Function]:
    return [node for node in statements(scope.body) if isinstance(node, Function) and node.name == name]


def _means_the_same(test: Function) -> bool:
    """Whether nothing of a test is looked up in the class that it was written in."""
    has_defaults = bool(test.args.defaults or any(test.args.kw_defaults))
    names = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute)}
    is_private = any(name.startswith("__") and not name.endswith("__") for name in names)
    is_bound = is_private or bool(names & {"super", "__class__"})
    return not (test.decorator_list or has_defaults or is_bound)
