"""What can be wrong with a request, from a wrong message to wrong bytes; drawn from a seeded generator.

`mutated` changes a body as JSON (a history that harnesses might send, then types and names that none
would), `damaged` changes bytes. Nothing here knows what should come of it.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

JSON = Any
LISTS = ("messages", "input")
ODD_STRINGS = ("", "\x00", "é", "😀", "<|im_end|>", "</tool_call>", "\n\n", "x" * 5000, "\ud800", "0", "null")
ODD_VALUES: tuple[JSON, ...] = (
    None, True, 0, -1, 1.5, 10**30, "", "x", [], {}, [[]], [None], {"a": {}}, [{"type": "text", "text": "t"}],
    {"type": "text"}, {"role": "user"},
)  # fmt: skip
NAMES = (
    "role", "content", "type", "text", "tool_calls", "tool_call_id", "id", "function", "name", "arguments", "input",
    "tool_use_id", "thinking", "system", "tools", "stream", "call_id", "output", "model", "n", "tool_choice", "parameters",
    "input_schema", "instructions", "max_tokens", "previous_response_id", "summary", "stream_options",
)  # fmt: skip
ROLES = ("system", "user", "assistant", "tool", "developer", "king")


def mutated(body: dict[str, JSON], draw: random.Random) -> dict[str, JSON]:
    """The body with one to three things changed."""
    changed = copy.deepcopy(body)
    for _ in range(draw.choice((1, 1, 2, 3))):
        kinds = HISTORY if draw.random() < 0.5 and _history(changed) else STRUCTURE
        draw.choice(kinds)(changed, draw)
    return changed


def damaged(raw: bytes, draw: random.Random) -> bytes:
    """The bytes with something wrong."""
    return draw.choice(DAMAGES)(raw, draw)


# --- histories -----------------------------------------------------------------------------------


def _history(body: dict[str, JSON]) -> list[JSON]:
    found = next((body[name] for name in LISTS if isinstance(body.get(name), list)), [])
    return found if isinstance(found, list) else []


def _remove(body: JSON, draw: random.Random) -> None:
    history = _history(body)
    del history[draw.randrange(len(history))]


def _repeat(body: JSON, draw: random.Random) -> None:
    history = _history(body)
    history.insert(draw.randrange(len(history) + 1), copy.deepcopy(draw.choice(history)))


def _swap(body: JSON, draw: random.Random) -> None:
    history = _history(body)
    one, other = draw.randrange(len(history)), draw.randrange(len(history))
    history[one], history[other] = history[other], history[one]


def _cut(body: JSON, draw: random.Random) -> None:
    history = _history(body)
    del history[draw.randrange(len(history)) :]


def _edit(body: JSON, draw: random.Random) -> None:
    """Some text of the history, an echo of the policy's own turn as likely as any."""
    places = [(at, key) for at, key, value in _walk(_history(body)) if isinstance(value, str)]
    if places:
        at, key = draw.choice(places)
        text = at[key]
        at[key] = draw.choice((text + " ", " " + text, text.upper(), text[: len(text) // 2], text + text))


def _add(body: JSON, draw: random.Random) -> None:
    item = {"role": draw.choice(ROLES), "content": draw.choice(ODD_STRINGS)}
    _history(body).insert(draw.randrange(len(_history(body)) + 1), item)


HISTORY: tuple[Callable[[JSON, random.Random], None], ...] = (_remove, _repeat, _swap, _cut, _edit, _add)


# --- structure -----------------------------------------------------------------------------------


def _walk(value: JSON) -> Iterator[tuple[JSON, JSON, JSON]]:
    """Container, key and value of everything inside."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key, inner
        yield from _walk(inner)


def _place(body: JSON, draw: random.Random) -> tuple[JSON, JSON]:
    """Somewhere, as likely near the top as far below."""
    at, key = body, draw.choice(list(body)) if body else "messages"
    while isinstance(at.get(key) if isinstance(at, dict) else at[key], dict | list) and draw.random() < 0.8:
        inner = at[key]
        if not inner:
            break
        at, key = inner, draw.choice(list(inner)) if isinstance(inner, dict) else draw.randrange(len(inner))
    return at, key


def _replace(body: JSON, draw: random.Random) -> None:
    at, key = _place(body, draw)
    at[key] = copy.deepcopy(draw.choice((draw.choice(ODD_VALUES), draw.choice(ODD_STRINGS))))


def _drop(body: JSON, draw: random.Random) -> None:
    at, key = _place(body, draw)
    if isinstance(at, list) or key in at:
        del at[key]


def _name(body: JSON, draw: random.Random) -> None:
    at, _ = _place(body, draw)
    if isinstance(at, dict):
        at[draw.choice(NAMES)] = copy.deepcopy(draw.choice(ODD_VALUES))


def _wrap(body: JSON, draw: random.Random) -> None:
    at, key = _place(body, draw)
    if isinstance(at, list) or key in at:
        at[key] = [at[key]] if draw.random() < 0.5 else {"content": at[key]}


def _deepen(body: JSON, draw: random.Random) -> None:
    at, key = _place(body, draw)
    value: JSON = "deep"
    for _ in range(draw.choice((5, 99, 101, 400))):
        value = [value] if draw.random() < 0.5 else {"type": value}
    at[key] = value


def _role(body: JSON, draw: random.Random) -> None:
    item = draw.choice(_history(body) or [{}])
    if isinstance(item, dict):
        item["role"] = draw.choice(ROLES)


STRUCTURE: tuple[Callable[[JSON, random.Random], None], ...] = (
    _replace,
    _replace,
    _drop,
    _name,
    _wrap,
    _deepen,
    _role,
)


# --- bytes ---------------------------------------------------------------------------------------


def _flip(raw: bytes, draw: random.Random) -> bytes:
    flipped = bytearray(raw)
    for _ in range(draw.choice((1, 1, 1, 5)) if raw else 0):
        flipped[draw.randrange(len(raw))] ^= 1 << draw.randrange(8)
    return bytes(flipped)


def _truncate(raw: bytes, draw: random.Random) -> bytes:
    return raw[: draw.randrange(len(raw) + 1)]


def _insert(raw: bytes, draw: random.Random) -> bytes:
    at = draw.randrange(len(raw) + 1)
    return raw[:at] + draw.choice(ODD_BYTES) + raw[at:]


def _splice(raw: bytes, draw: random.Random) -> bytes:
    one, other = sorted((draw.randrange(len(raw) + 1), draw.randrange(len(raw) + 1)))
    return raw[:other] + raw[one:]


def _duplicate_key(raw: bytes, draw: random.Random) -> bytes:
    name = draw.choice(NAMES)
    value = json.dumps(draw.choice(ODD_VALUES))
    return raw.replace(b"{", f'{{"{name}": {value}, '.encode(), 1 if draw.random() < 0.5 else 3)


ODD_BYTES = (
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"NaN", b"-Infinity", b"1e999", b'"\\ud800"', b"{", b"}", b"[" * 2000,
    b'"', b"\\", b",", b"9" * 5000, b"\r\n\r\n", b"null", b"/* */",
)  # fmt: skip
DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _flip,
    _truncate,
    _insert,
    _splice,
    _duplicate_key,
)
