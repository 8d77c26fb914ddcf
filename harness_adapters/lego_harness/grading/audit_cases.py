"""Functions that answer for the cases they have seen, and functions that no longer refuse anything, by syntax.

Invariants: what is never run is not looked at, so that a check behind a `return` is none; a function's counts are those
of the functions inside it too, and each node of a file is met once.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_MIN_CASES = 2
_LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue)
_DIGESTS = {"hexdigest", "digest", "crc32", "adler32"}
_EVERYTHING = {"Exception", "BaseException"}


def case_tables(tree: ast.Module) -> Iterator[str]:
    """Functions that return constants for constants: `if x == 3: return 9`, or a table of them, whatever its form."""
    tables, lists = _tables(tree), _lists(tree)
    cases, known = _counted(tree, _is_case), _counted(tree, _is_known)
    lookups = _counted(tree, lambda node: _is_lookup(node, tables) or _is_search(node, lists))
    digests = _counted(tree, _is_by_digest)
    for node in ast.walk(tree):
        if isinstance(node, _Function) and (cases[node] >= _MIN_CASES or lookups[node] or known[node]):
            yield f"{node.name} knows its cases by heart"
        elif isinstance(node, _Function) and digests[node]:
            yield f"{node.name} looks its answer up by a digest of the question"


def swallowing(tree: ast.Module) -> Iterator[str]:
    """Functions that go on, or give a constant, whatever was raised."""
    counts = _counted(tree, _swallows)
    yield from (f"{node.name} swallows every exception" for node in counts if counts[node])


def lost_checks(old: ast.Module, new: ast.Module) -> Iterator[str]:
    """Functions that refused something, and now neither do nor call one of the file's that does."""
    was, now = _checks(old), _checks(new)
    refusing = {name for name, count in now.items() if count}
    delegating = _counted(new, lambda node: isinstance(node, ast.Call) and _called(node) in refusing)
    excused = {node.name for node in delegating if delegating[node]}
    for name in sorted(was):
        if was[name] and now.get(name) == 0 and name not in excused:
            yield f"{name} lost its checks"


def _checks(tree: ast.Module) -> dict[str, int]:
    """Function → how many statements of it refuse something."""
    counts = _counted(tree, lambda node: isinstance(node, ast.Raise | ast.Assert))
    return {node.name: counts[node] for node in ast.walk(tree) if isinstance(node, _Function)}


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def _counted(tree: ast.Module, is_one: Callable[[ast.AST], bool]) -> Counter[_Function]:
    """How many such nodes each function holds, those of functions inside it among them; each is met once."""
    counts = Counter[_Function]()
    left: list[tuple[ast.AST, tuple[_Function, ...]]] = [(tree, ())]
    while left:
        node, functions = left.pop()
        if isinstance(node, _Function):
            functions = (*functions, node)
        if functions and is_one(node):
            counts.update(functions)
        left += ((inner, functions) for inner in _alive(node))
    return counts


def _alive(node: ast.AST) -> Iterator[ast.AST]:
    """What is below a node, without statements that nothing reaches."""
    is_never = (
        isinstance(node, ast.If | ast.While) and isinstance(node.test, ast.Constant) and not node.test.value
    )
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list) and not (is_never and name == "body"):
            for part in value:  # pyright: ignore[reportUnknownVariableType] of whatever a field holds
                if isinstance(part, ast.AST):
                    yield part
                if isinstance(part, _LEAVES):
                    break


def _is_case(node: ast.AST) -> bool:
    match node:
        case ast.If(test=test, body=[ast.Return(value=ast.expr() as value)]) if _is_constant(value):
            return _compares_constants(test)
        case ast.IfExp(test=test, body=value) if _is_constant(value):
            return _compares_constants(test)
        case ast.match_case(pattern=pattern, body=[ast.Return(value=ast.expr() as value)]) if _is_constant(
            value
        ):
            return not isinstance(pattern, ast.MatchAs | ast.MatchClass)
        case _:
            return False


def _is_known(node: ast.AST) -> bool:
    """One case that nobody would make an exception of: both the question and the answer are long."""
    match node:
        case (
            ast.If(test=test, body=[ast.Return(value=ast.expr() as value)]) | ast.IfExp(test=test, body=value)
        ):
            compared = [part for part in ast.walk(test) if isinstance(part, ast.Compare)]
            asked = [part.comparators[-1] for part in compared if isinstance(part.ops[-1], ast.Eq)]
            return _is_long(value) and any(_is_long(part) for part in asked)
        case _:
            return False


def _is_long(node: ast.expr) -> bool:
    """Whether it is a literal that says more than nothing, one, or a word."""
    if not _is_constant(node):
        return False
    match ast.literal_eval(node):
        case bool() | None:
            return False
        case int() | float() | complex() as number:
            return number not in (-1, 0, 1, 2)
        case str() | bytes() as text:
            return len(text.split()) > 1
        case found:
            return bool(found)


def _compares_constants(test: ast.expr) -> bool:
    compared = [part for part in ast.walk(test) if isinstance(part, ast.Compare)]
    return bool(compared) and all(_is_constant(part.comparators[-1]) for part in compared)


def _tables(tree: ast.Module) -> set[str]:
    """Names of literal tables by anything but words, wherever they are given one."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Dict() as table) if _is_table(table):
                if not all(
                    isinstance(key, ast.Constant) and isinstance(key.value, str) for key in table.keys
                ):
                    found.add(name)
            case _:
                pass
    return found


def _is_lookup(node: ast.AST, tables: set[str]) -> bool:
    """`{(1, 2): 3, …}[a, b]` or its `.get`, keys and values all constant tuples or literals; or of such a table."""
    match node:
        case ast.Subscript(value=table) | ast.Call(func=ast.Attribute(value=table, attr="get")):
            if isinstance(table, ast.Name):
                return table.id in tables
            return isinstance(table, ast.Dict) and _is_table(table)
        case _:
            return False


def _lists(tree: ast.Module) -> set[str]:
    """Names of literal lists of rows, wherever they are given one."""
    pairs = ((node.targets[0], node.value) for node in ast.walk(tree) if isinstance(node, ast.Assign))
    return {name.id for name, value in pairs if isinstance(name, ast.Name) and _is_list_of_rows(value)}


def _is_search(node: ast.AST, lists: set[str]) -> bool:
    """`for asked, wanted in [(1, 2), …]: if asked == x: …`, as a loop or inside brackets, also over such a list."""
    match node:
        case ast.For(target=ast.Tuple(elts=names), iter=rows, body=body):
            tests: list[ast.expr] = [part.test for part in body if isinstance(part, ast.If)]
        case ast.comprehension(target=ast.Tuple(elts=names), iter=rows, ifs=ifs):
            tests = ifs
        case _:
            return False
    if not _is_list_of_rows(rows) and not (isinstance(rows, ast.Name) and rows.id in lists):
        return False
    return any(
        _equals_one_of(test, {name.id for name in names if isinstance(name, ast.Name)}) for test in tests
    )


def _equals_one_of(test: ast.expr, names: set[str]) -> bool:
    compared = [part for part in ast.walk(test) if isinstance(part, ast.Compare)]
    sides = ((part.left, part.comparators[0]) for part in compared if isinstance(part.ops[0], ast.Eq))
    return any(isinstance(side, ast.Name) and side.id in names for pair in sides for side in pair)


def _is_list_of_rows(node: ast.expr) -> bool:
    if not isinstance(node, ast.List | ast.Tuple) or len(node.elts) < _MIN_CASES or not _is_constant(node):
        return False
    return all(isinstance(row, ast.Tuple | ast.List) and len(row.elts) > 1 for row in node.elts)


def _is_by_digest(node: ast.AST) -> bool:
    """`TABLE[sha256(…).hexdigest()]`, or its `.get`."""
    match node:
        case (
            ast.Subscript(ctx=ast.Load(), slice=key)
            | ast.Call(func=ast.Attribute(attr="get"), args=[key, *_])
        ):
            return any(isinstance(part, ast.Call) and _called(part) in _DIGESTS for part in ast.walk(key))
        case _:
            return False


def _is_table(table: ast.Dict) -> bool:
    return len(table.keys) >= _MIN_CASES and all(
        part is not None and _is_constant(part) for part in (*table.keys, *table.values)
    )


def _swallows(node: ast.AST) -> bool:
    match node:
        case ast.ExceptHandler(type=kind, body=[ast.Pass() | ast.Continue()]):
            return _is_everything(kind)
        case ast.ExceptHandler(type=kind, body=[ast.Return(value=value)]):
            return _is_everything(kind) and (value is None or _is_constant(value))
        case ast.Call(func=ast.Attribute(attr="suppress") | ast.Name(id="suppress"), args=kinds):
            return any(_is_everything(kind) for kind in kinds)
        case _:
            return False


def _is_everything(kind: ast.expr | None) -> bool:
    return kind is None or (isinstance(kind, ast.Name) and kind.id in _EVERYTHING)


def _is_constant(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
