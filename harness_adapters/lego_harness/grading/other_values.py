"""Another expected value in place of the one that a test has, of the same look.

Invariants: what is made does not equal what it was made from; nothing about it says that it was made: literals become
literals of their kind, `Point(1, 2)` another point, a name one in a list. Runs nothing.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from random import Random
from string import ascii_lowercase
from typing import Any, cast

_MAKERS = {
    *(
        "list",
        "tuple",
        "set",
        "frozenset",
        "dict",
        "sorted",
        "range",
        "bytes",
        "bytearray",
        "deque",
        "complex",
    ),
    "approx",
}
"""Calls that make another value of other arguments; so does a class, which has a capital letter."""
_UNLIKE = {
    "ValueError": ("AttributeError", "IndexError"),
    "TypeError": ("KeyError", "IndexError"),
    "KeyError": ("TypeError", "RuntimeError"),
    "IndexError": ("ValueError", "TypeError"),
    "AttributeError": ("ValueError", "RuntimeError"),
    "RuntimeError": ("KeyError", "TypeError"),
}
"""What tests expect every day, and what stands for it without being noticed: no class is derived from both."""
_WORD = re.compile(r"[A-Za-z0-9]+")
_LARGE = 16
"""From here on people notice whether a number is a round one."""
_BASELESS = ("ZeroDivisionError", "OverflowError", "EOFError", "ImportError")
"""What nobody derives his own exceptions from."""


def is_literal(node: ast.expr) -> bool:
    """Whether its value can be read, an ellipsis aside."""
    try:
        return ast.literal_eval(node) is not ...
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False


def has_value(node: ast.expr) -> bool:
    """Whether there is a literal in it that can be another."""
    return is_literal(node) or any(True for _ in _leaves(node))


def other_than(side: ast.expr, rng: Random) -> ast.expr:
    """An expression that does not equal `side`, whatever that is."""
    if is_literal(side):
        return _expression(_other_value(ast.literal_eval(side), rng))
    if leaves := list(_leaves(side)):
        leaf = rng.choice(leaves)
        return cast(ast.expr, replaced(side, leaf, other_than(leaf, rng)))
    return ast.List([side], ast.Load())


def other_number(side: ast.expr, rng: Random) -> ast.expr:
    """The same where arrays are compared with numbers, and a list of one equals what it holds."""
    if has_value(side):
        return other_than(side, rng)
    return ast.BinOp(side, ast.Add(), ast.Constant(rng.choice((1, 2, 3))))


def elsewhere(node: ast.expr, rng: Random) -> ast.expr | None:
    """A literal of the same kind that stands in nothing where this one does, each of a container's; else None."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return ast.Constant(number + rng.randrange(1_000, 10_000))
        case ast.Constant(value=str() as text):
            return ast.Constant(text + "".join(rng.choices(ascii_lowercase, k=3)))
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts) if parts:
            others = [elsewhere(part, rng) for part in parts]
            found = [other for other in others if other]
            return type(node)(found) if len(found) == len(parts) else None
        case _:
            return None


def other_exception(known: set[str], rng: Random) -> str:
    """The name of a builtin exception that whoever raises one of `known` hardly ever raises with it."""
    classes = [_builtin(name) for name in known]
    pool = _BASELESS if _SomebodysOwn in classes else tuple(_UNLIKE)
    if len(known) == 1:
        pool = _UNLIKE.get(next(iter(known)), pool)
    others = [name for name in pool if not any(_are_related(_builtin(name), one) for one in classes)]
    return rng.choice(others or [name for name in _BASELESS if name not in known])


def replaced(tree: ast.AST, old: ast.AST, new: ast.AST) -> ast.AST:
    """The tree with one node in place of another."""

    class Replacing(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return new if node is old else self.generic_visit(node)

    return Replacing().visit(tree)


def _leaves(node: ast.expr | None) -> Iterator[ast.expr]:
    """Literals that an expression's value is made of."""
    match node:
        case ast.Constant(value=int() | float() | complex() | str() | bytes()):
            yield node
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
            for part in parts:
                yield from _leaves(part)
        case ast.Dict(keys=keys, values=values):
            for part in (*keys, *values):
                yield from _leaves(part)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield from _leaves(operand)
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=parts, keywords=keywords):
            is_class = name[:1].isupper()
            if is_class or name in _MAKERS:
                for part in (*parts, *(k.value for k in keywords if is_class)):
                    yield from _leaves(part)
        case _:
            return


def _expression(value: Any) -> ast.expr:
    return ast.parse(repr(value), mode="eval").body


def _other_value(value: Any, rng: Random) -> Any:
    """A value of the same look that does not equal `value`."""
    match value:
        case bool():
            return not value
        case int():
            return _other_int(value, rng)
        case complex():
            return value + rng.choice((-2, -1, 1, 2))
        case float():
            return _other_float(value, rng)
        case str():
            return _other_text(value, rng)
        case bytes():
            return _other_text(value.decode("latin-1"), rng).encode(
                "latin-1"
            )  # ASCII alone is changed or added
        case list() | tuple():
            items = _other_items(list(cast("list[Any]", value)), rng)
            return type(cast("list[Any]", value))(items)
        case dict():
            table = cast("dict[Any, Any]", value)
            key = rng.choice(list(table)) if table else 0
            return {**table, key: _other_value(table.get(key), rng)}
        case set():
            known = cast("set[Any]", value)
            others = set(_other_items(list(known), rng))
            return others if others != known else known ^ {0}
        case _:
            return 0


def _other_float(value: float, rng: Random) -> float:
    """One of its first digits is another: beyond every tolerance, and without a tail that arithmetic would leave."""
    text = repr(value)
    digits = [i for i, char in enumerate(text.partition("e")[0]) if char.isdigit()]
    leading = [i for i in digits if text[i] != "0"][:2] or digits
    if not leading:
        return 0.0
    place = rng.choice(leading)
    digit = rng.choice([d for d in "123456789" if d != text[place]])
    return float(text[:place] + digit + text[place + 1 :])


def _other_items(items: list[Any], rng: Random) -> list[Any]:
    """Mostly another item; sometimes one less, so that nothing is too short to have been made."""
    if not items:
        return [rng.choice((0, 1, 2))]
    if rng.random() < 0.2:
        return items[:-1]
    index = rng.randrange(len(items))
    return [*items[:index], _other_value(items[index], rng), *items[index + 1 :]]


def _other_int(value: int, rng: Random) -> int:
    """One as round: among the powers of two another, else one that differs in the last digit that is no zero."""
    size = abs(value)
    if size >= _LARGE and (size & (size - 1) == 0 or (size + 1) & size == 0):
        other = rng.choice((size // 2, size * 2 + (size & 1)))
    else:
        step = next((10**n for n in range(18, 0, -1) if size and size % 10**n == 0), 1)
        others = (size + step * by for by in (-2, -1, 1, 2))
        other = rng.choice([one for one in others if one > 0 or size < _LARGE])
    return -other if value < 0 else other


def _other_text(text: str, rng: Random) -> str:
    others = [other for other in _near(text, rng) if other != text]
    return rng.choice(others) if others else _misspelt(text, rng)


def _near(text: str, rng: Random) -> Iterator[str]:
    """Texts of the same words and marks: whoever knows how words are spelt must not see which is genuine."""
    words = [word.span() for word in _WORD.finditer(text)]
    if len(words) > 1:
        (a, b), (c, d) = sorted(rng.sample(words, 2))
        yield text[:a] + text[c:d] + text[b:c] + text[a:b] + text[d:]
        yield text[:a] + text[c:]
    if digits := [place for place, char in enumerate(text) if char in "0123456789"]:
        place = rng.choice(digits)
        yield text[:place] + rng.choice([d for d in "123456789" if d != text[place]]) + text[place + 1 :]
    if len(text) > 1:
        yield text[:-1]


def _misspelt(text: str, rng: Random) -> str:
    if not text:
        return rng.choice("abcdefghijklmnopqrstuvwxyz0123456789")
    return text[:0] if rng.random() < 0.2 else text + rng.choice((text, "s", "0"))


def _builtin(name: str) -> type[BaseException]:
    found = getattr(builtins, name, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else _SomebodysOwn


class _SomebodysOwn(BaseException):
    """Stands for what is no builtin."""


def _are_related(one: type, other: type) -> bool:
    return issubclass(one, other) or issubclass(other, one)
