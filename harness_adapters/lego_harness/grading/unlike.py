"""Two values that are compared, one of them changed while the tests run: for equalities whose both sides are computed.

A literal becomes another where it is written (`other_values.py`). What `assert f(x) == g(x)` expects is known only when
it runs: a function that is written into the tests gives both sides back, one of them another value of its own type,
that side of which a comparison holds where there is one. Invariants: values that are equal stay unequal when one was
changed; what equals everything of a type is caught on whichever side it stands; every copy of a file has the function.
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
            return value + (b'x' if isinstance(value, bytes) else 'x')
        if isinstance(value, (set, frozenset)):
            return value ^ {{None}}
        if isinstance(value, dict):
            return {{**value, None: value}}
        if isinstance(value, (list, tuple)):
            return type(value)([*value, None]) if type(value) in (list, tuple) else [*value, None]
        return [value]
    pairs = [(left, other(right)), (other(left), right)]
    return ([pair for pair in pairs if pair[0] == pair[1]] or pairs)[0]
"""


def unlike(left: ast.expr, right: ast.expr) -> ast.expr:
    """A call that gives both sides back, unequal if they were equal."""
    return ast.Call(ast.Name(_NAME, ast.Load()), [left, right], [])


def equal_unlike(left: ast.expr, right: ast.expr) -> ast.expr:
    """An expression that is false where `left == right`."""
    compared = ast.parse("lambda one, other: one == other", mode="eval").body
    return ast.Call(compared, [ast.Starred(unlike(left, right), ast.Load())], [])


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
