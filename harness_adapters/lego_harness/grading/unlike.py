"""Two values that are compared, one of them changed while the tests run: for equalities whose both sides are computed.

A literal becomes another where it is written (`other_values.py`). What `assert f(x) == g(x)` expects is known only when
it runs: a function that is written into the tests gives both sides back, the one or the other another value of its own
type and look. Invariants: values that are equal stay unequal when one was changed; what equals everything of a type is
caught on whichever side it stands; no two values are compared twice, so that what agrees once agrees where it counts;
every copy of a file has the function.
"""

from __future__ import annotations

import ast
from random import Random
from string import ascii_lowercase

_NAME = "__unlike__"
_LENGTH = 10
_SOURCE = f"""
def {_NAME}(left, right):
    def other(value):
        if isinstance(value, bool):
            return not value
        if isinstance(value, (int, float, complex)):
            return value + 1 if abs(value) < 10 ** 9 else -value
        if isinstance(value, (str, bytes)):
            return value[:-1] if len(value) > 1 else value * 2 or value + (b'0' if isinstance(value, bytes) else '0')
        if isinstance(value, (set, frozenset)):
            return type(value)(list(value)[1:] or ([0] if not value else []))
        if isinstance(value, dict):
            return dict(list(value.items())[1:]) if value else {{0: 0}}
        if isinstance(value, (list, tuple)):
            return (tuple if isinstance(value, tuple) else list)(value[:-1] if value else [0])
        return [value]
    pairs = [(left, other(right)), (other(left), right)]
    return pairs[::-1] if type(left).__module__ == 'builtins' != type(right).__module__ else pairs
"""


def unlike(left: ast.expr, right: ast.expr) -> ast.expr:
    """A call that gives both sides back, unequal if they were equal; what says itself what it equals is left as it is."""
    return ast.Subscript(_pairs(left, right), ast.Constant(0), ast.Load())


def equal_unlike(left: ast.expr, right: ast.expr) -> ast.expr:
    """An expression that is false where `left == right`."""
    names = ast.parse("one, other = 0").body[0]
    assert isinstance(names, ast.Assign)
    holds = ast.parse("one == other", mode="eval").body
    each = ast.comprehension(names.targets[0], _pairs(left, right), [holds], 0)
    return ast.ListComp(ast.Constant(1), [each])


def _pairs(left: ast.expr, right: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(_NAME, ast.Load()), [left, right], [])


def printed(tree: ast.Module, rng: Random) -> str:
    """The file with the function in it, under a name that nobody knows beforehand."""
    own = ast.parse(_SOURCE).body
    place = next((i for i, statement in enumerate(tree.body) if not _is_first(i, statement)), len(tree.body))
    whole = ast.Module([*tree.body[:place], *own, *tree.body[place:]], tree.type_ignores)
    text = ast.unparse(ast.fix_missing_locations(whole))
    return text.replace(_NAME, "v" + "".join(rng.choices(ascii_lowercase, k=_LENGTH - 1))) + "\n"


def _is_first(number: int, statement: ast.stmt) -> bool:
    """Whether Python wants it at the top: a docstring, and imports from the future."""
    match statement:
        case ast.Expr(value=ast.Constant(value=str())):
            return number == 0
        case ast.ImportFrom(module="__future__"):
            return True
        case _:
            return False
