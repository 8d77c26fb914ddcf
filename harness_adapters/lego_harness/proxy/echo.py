r"""When a harness repeats the policy's own turn differently, is it still the same turn?

The one table of rewrites that keep the sampled ids, because the meaning is the same:

    rewrite                                        example
    keys in another order, duplicate keys folded   schema order
    a key added or left out whose value is empty   replace_all: false
      or false, or the schema's default
    white space at line ends and at the end        Write content, Edit new_string
    a scalar coerced, either way                   "1" → 1, "false" → false, 5 → "5", 5000.0 → 5000
    a list or an object read from its text, or     "[1, 2]" → [1, 2]
      written as one
    digits lost that a double cannot hold          12345678901234567890 → 12345678901234567000
    a tool named as the harness knows it           Bash → bash, execute_bash → terminal
    a call under an id that nobody issued here,    call_6f… → call_1
      as no template shows ids
    arguments that are no object wrapped, their    {"__unparsedToolInput": {"raw": …}},
      text kept                                      {"arguments": …}
    `cd <dir> && ` dropped in a command            already the working directory
    `\\;` written as `\;`                          find … -exec … \;
    surrounding white space of the content, blank content dropped
    reasoning dropped, or put in front of the      <think>…</think> Look.
      content in its tags

Anything else is another turn. Text in, verdict out: no tokens, no session.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Sequence
from typing import Any, cast

from lego_harness.proxy.conversation import Message, Tool, ToolCall
from lego_harness.proxy.forms.values import whole_value
from lego_harness.text import changed, first_difference

_EMPTY: tuple[object, ...] = (False, None, "", [], {})
_EXACT, _LARGEST = 2**53, 2**1023
"""Integers up to which doubles are exact, and up to which they are finite."""
_THOUGHT = re.compile(r"\s*<think>(.*?)(?:</think>|\Z)", re.DOTALL)
_CHANGE_DIRECTORY = re.compile(r"""(?<![^\s;&|(])cd ("[^"]*"|'[^']*'|\S+) && """)


Defaults = dict[str, dict[str, Any]]
"""Tool name → parameter → the default its schema declares."""


def difference(
    sampled: Message, echoed: Message, defaults: Defaults, issued: Container[str] | None = None
) -> str:
    """Why `echoed` is not the turn we sampled; empty when it is.

    `defaults` are those of the tools on offer, `issued` the ids of all calls of the rollout; where those are
    not given, every id counts as one of them.
    """
    if echoed["role"] != "assistant":
        return f"an assistant turn was expected, got role {echoed['role']}"
    ours, theirs = sampled.get("tool_calls", []), echoed.get("tool_calls", [])
    if not _same_calls(ours, theirs, issued):
        return f"tool calls {_ids(theirs)}, expected {_ids(ours)}"
    for one, other in zip(ours, theirs, strict=True):
        if cause := _call_difference(one, other, defaults):
            return cause
    text, reasoning = echoed["content"].strip(), echoed.get("reasoning_content", "").strip()
    if text != sampled["content"].strip() and not reasoning:
        text, reasoning = told_apart(text)
    if text != sampled["content"].strip():
        return f"its text changed: {_first_change(sampled['content'], echoed['content'])}"
    if reasoning and reasoning != sampled.get("reasoning_content", "").strip():
        return "its reasoning changed"
    return ""


def told_apart(text: str) -> tuple[str, str]:
    """What a turn says, and the reasoning in front of it, by its tags."""
    thought = _THOUGHT.match(text)
    return (text[thought.end() :].strip(), thought[1].strip()) if thought else (text.strip(), "")


def declared_defaults(tools: Sequence[Tool]) -> Defaults:
    """The defaults of all tools on offer."""
    return {tool["function"]["name"]: _defaults(tool["function"].get("parameters", {})) for tool in tools}


def _defaults(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    named = cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}
    return {
        key: spec["default"] for key, spec in named.items() if isinstance(spec, dict) and "default" in spec
    }


def _same_calls(ours: Sequence[ToolCall], theirs: Sequence[ToolCall], issued: Container[str] | None) -> bool:
    """Whether these may be the calls of one turn, by their ids."""
    if len(ours) != len(theirs):
        return False
    renamed = [two["id"] for one, two in zip(ours, theirs, strict=True) if one["id"] != two["id"]]
    return not renamed or (issued is not None and not any(name in issued for name in renamed))


def _ids(calls: Sequence[ToolCall]) -> str:
    return "[" + ", ".join(call["id"] for call in calls) + "]"


def _call_difference(ours: ToolCall, theirs: ToolCall, defaults: Defaults) -> str:
    name, other = ours["function"]["name"], theirs["function"]["name"]
    if name != other and not (name not in defaults and other in defaults):
        return f"call {ours['id']} was {name!r} and is {other!r}"
    sampled, echoed = ours["function"]["arguments"], theirs["function"]["arguments"]
    if (text := _text_of(sampled)) is not None and (
        text == _text_of(echoed) or {"raw": text} in _values(echoed)
    ):
        return ""
    if isinstance(sampled, str) or isinstance(echoed, str):
        return f"call {ours['id']}: its arguments are no longer a JSON object"
    for key in sampled | echoed:
        if not _same_argument(key, sampled, echoed, defaults.get(other, {})):
            return f"call {ours['id']}: argument {key!r} {_change(key, sampled, echoed)}"
    return ""


def _text_of(arguments: dict[str, Any] | str) -> str | None:
    """Arguments that are no object, themselves or as `fitting.py` has them shown; None of any other."""
    only = arguments.get("arguments") if isinstance(arguments, dict) and len(arguments) == 1 else arguments
    return only if isinstance(only, str) else None


def _values(arguments: dict[str, Any] | str) -> list[Any]:
    return list(arguments.values()) if isinstance(arguments, dict) else []


def _same_argument(
    key: str, sampled: dict[str, Any], echoed: dict[str, Any], default: dict[str, Any]
) -> bool:
    if key in sampled and key in echoed:
        return _same_value(sampled[key], echoed[key])
    value = sampled[key] if key in sampled else echoed[key]
    return any(_is_equal(value, empty) for empty in _EMPTY) or (
        key in default and _is_equal(default[key], value)
    )


def _same_value(sampled: Any, echoed: Any) -> bool:
    if isinstance(sampled, dict) and isinstance(echoed, dict):
        ours, theirs = cast("dict[str, Any]", sampled), cast("dict[str, Any]", echoed)
        return all(_same_argument(key, ours, theirs, {}) for key in ours | theirs)
    if isinstance(sampled, list) and isinstance(echoed, list):
        ours, theirs = cast("list[Any]", sampled), cast("list[Any]", echoed)
        return len(ours) == len(theirs) and all(map(_same_value, ours, theirs))
    if isinstance(sampled, str) and isinstance(echoed, str):
        return sampled == echoed or _is_same_text(_folded_text(sampled), _folded_text(echoed))
    if isinstance(sampled, str):
        return _is_text_of(sampled, echoed)
    return _is_text_of(echoed, sampled) if isinstance(echoed, str) else _is_equal(sampled, echoed)


def _is_equal(one: Any, other: Any) -> bool:
    """Equality in which `1` and `True` differ, and two numbers of the same double do not."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int) and isinstance(other, int) and abs(one) > _EXACT:
        return _as_double(one) == _as_double(other)
    return one == other


def _as_double(number: float) -> float:
    """JavaScript's reading of a number."""
    if abs(number) < _LARGEST:
        return float(number)
    return math.inf if number > 0 else -math.inf


def _is_text_of(text: str, value: Any) -> bool:
    """Forms without types hand over an argument that its tool does not declare as text."""
    if not isinstance(value, (dict, list)):
        return _is_coerced(text, value)
    try:
        return _same_value(whole_value(text), cast("object", value))
    except ValueError:
        return False


def _is_coerced(text: str, scalar: object) -> bool:
    if isinstance(scalar, bool):
        return text.strip().lower() == str(scalar).lower()
    try:
        return isinstance(scalar, (int, float)) and float(text) == _as_double(scalar)
    except ValueError:
        return False


def _is_same_text(sampled: str, echoed: str) -> bool:
    forms = (sampled, _CHANGE_DIRECTORY.sub("", sampled, count=1))
    return echoed in forms or echoed in (form.replace(r"\\;", r"\;") for form in forms)


def _folded_text(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.rstrip().split("\n"))


def _change(key: str, sampled: dict[str, Any], echoed: dict[str, Any]) -> str:
    one, other = sampled.get(key), echoed.get(key)
    if isinstance(one, str) and isinstance(other, str):
        return changed(one, other)
    return f"was {_short(sampled, key)} and is {_short(echoed, key)}"


def _short(arguments: dict[str, Any], key: str) -> str:
    return repr(arguments[key])[:80] if key in arguments else "absent"


def _first_change(one: str, other: str) -> str:
    at = first_difference(one, other)
    return f"at character {at}, {one[at : at + 40]!r} became {other[at : at + 40]!r}"
