"""Faults for a function: each is one edit of its text, the rest of the file byte for byte as it was.

    comparison  a < b → a <= b      arithmetic  a + b → a - b      logic     a and b → a or b
    condition   if x: → if not (x): constant    0 → 1              argument  f(a, b) → f(b, a)
    dropped     a branch, an exception, an update, a call becomes `pass`

Invariants: what is applied parses and says something else; faults come in the order of the file, so that a seed chooses the same ones again.
Decorators, defaults and functions defined inside are not the function's own. Runs nothing: whether a test sees a
fault is found by running it (`screen.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARISONS = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    **{"is": "is not", "is not": "is", "in": "not in", "not in": "in"},
}
_ARITHMETIC = {"+": "-", "-": "+", "*": "+", "//": "*", "/": "*", "<<": ">>", ">>": "<<", "&": "|", "|": "&"}
_LOGIC = {"and": "or", "or": "and"}
_OPERATOR = re.compile(r"[\s()\\]*?(not\s+in|is\s+not|[a-z]+|[^\s()\\\w]+)[\s()\\]*")
_Scope = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Edit:
    """Bytes `start` to `end` of the file become `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """A file and one edit of it."""

    path: str
    function: str
    """Qualified name, as a code object has it."""
    line: int
    """Number of the function's first line, decorators included, as in a code object."""
    kind: str
    edit: Edit

    def applied(self, source: bytes) -> bytes | None:
        """The file with the fault; None if it does not parse or means the same as before."""
        changed = source[: self.edit.start] + self.edit.text.encode() + source[self.edit.end :]
        try:
            return None if ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source)) else changed
        except (SyntaxError, ValueError, RecursionError):
            return None


def faults(path: str, source: bytes) -> list[Fault]:
    """Every fault of every function in a file; none if the file cannot be read."""
    try:
        tree = ast.parse(source)
        text = source.decode("utf-8")
    except (SyntaxError, ValueError, RecursionError):
        return []
    if "\r" in text or "\f" in text or text.startswith("\ufeff"):
        return []  # lines are not what the parser counts
    file = _File(source)
    found: list[Fault] = []
    for name, function in _functions(tree, ""):
        line = min(node.lineno for node in (function, *function.decorator_list))
        for kind, edit in _edits(file, function):
            found.append(Fault(path=path, function=name, line=line, kind=kind, edit=edit))
    return found


def _functions(node: ast.AST, above: str) -> Iterator[tuple[str, _Scope]]:
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, _Scope | ast.ClassDef):
            name, within = f"{above}{inner.name}", ""
            if isinstance(inner, _Scope):
                yield name, inner
                within = "<locals>."
            yield from _functions(inner, f"{name}.{within}")
        else:
            yield from _functions(inner, above)


class _File:
    """Places of nodes, in bytes."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._starts = [0]
        for line in source.split(b"\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)

    def text(self, node: ast.expr | ast.stmt) -> str:
        return self.source[self.start(node) : self.end(node)].decode()

    def instead(self, node: ast.expr | ast.stmt, text: str) -> Edit:
        return Edit(self.start(node), self.end(node), text)

    def operator(self, left: ast.expr, right: ast.expr, others: dict[str, str]) -> Iterator[Edit]:
        """Another operator between two operands, if there is nothing but brackets next to it."""
        start = self.end(left)
        found = _OPERATOR.fullmatch(self.source[start : self.start(right)].decode())
        other = found and others.get(" ".join(found[1].split()))
        if found and other:
            yield Edit(start + found.start(1), start + found.end(1), other)


def _edits(file: _File, function: _Scope) -> Iterator[tuple[str, Edit]]:
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    for statement in body:
        for node in _own(statement):
            yield from _edits_of(file, node)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, _Scope | ast.ClassDef | ast.JoinedStr):  # places inside f-strings are not told
        return
    yield node
    for inner in ast.iter_child_nodes(node):
        yield from _own(inner)


def _edits_of(file: _File, node: ast.AST) -> Iterator[tuple[str, Edit]]:
    match node:
        case ast.Compare(left=left, ops=[_], comparators=[right]):
            yield from (("comparison", edit) for edit in file.operator(left, right, _COMPARISONS))
        case ast.BinOp(left=left, right=right):
            yield from (("arithmetic", edit) for edit in file.operator(left, right, _ARITHMETIC))
        case ast.BoolOp(values=[left, right]):
            yield from (("logic", edit) for edit in file.operator(left, right, _LOGIC))
        case ast.Constant(value=bool() as value):
            yield "constant", file.instead(node, str(not value))
        case ast.Constant(value=int() as value):
            yield "constant", file.instead(node, str(value - 1 if value > 1 else value + 1))
        case ast.Call(args=[first, second, *_]) if not isinstance(first, ast.Starred):
            if not isinstance(second, ast.Starred):
                between = file.source[file.end(first) : file.start(second)].decode()
                swapped = f"{file.text(second)}{between}{file.text(first)}"
                yield "argument", Edit(file.start(first), file.end(second), swapped)
        case ast.If(test=test) | ast.IfExp(test=test):
            yield "condition", file.instead(test, f"not ({file.text(test)})")
            if isinstance(node, ast.If) and not node.orelse:
                yield "dropped", file.instead(node, "pass")
        case ast.Raise() | ast.AugAssign() | ast.Expr(value=ast.Call()):
            yield "dropped", file.instead(node, "pass")
        case _:
            pass
