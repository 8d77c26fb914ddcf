"""Ids that a proxy issued, put in place of the recorded ones they stand for.

Harnesses send ids back unchanged, so later requests must name what this proxy answered. Owns that
mapping. It also follows a server that gives several calls the same id, or none: a repeated call is then
recognised by its arguments and its place. Invariant: everything else in a request stays as recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from lego_harness.proxy.strict_json import read_object
from lego_harness.wire.said import Said
from lego_harness.wire.stream import table, text_of

_LONG = re.compile(r"[A-Za-z0-9_\-]{12,}")
"""Ids of this length are replaced inside texts too."""
_RESULTS = ("tool_call_id", "tool_use_id", "call_id")
_IDS = ("id", "signature", *_RESULTS)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Issued:
    """The id that this proxy gave a call."""

    name: str
    call: str
    """The call as the recording has it."""


@dataclass(kw_only=True, slots=True)
class _Walk:
    """One request, from its first message to its last."""

    met: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By recorded id, the calls that were met so far, in this proxy's ids."""
    answered: set[str] = field(default_factory=set[str])


class Names:
    """What recorded ids stand for."""

    def __init__(self) -> None:
        self._calls: dict[str, list[_Issued]] = {}
        self._others: dict[str, str] = {}

    def learn(self, recorded: Said, issued: Said) -> None:
        """The proxy answered `issued` where the recording has `recorded`."""
        for ours, theirs in zip(recorded.calls, issued.calls, strict=False):
            known = self._calls.setdefault(ours["id"], [])
            if all(one.name != theirs["id"] for one in known):
                text = _call_text(ours["function"]["name"], ours["function"]["arguments"])
                known.append(_Issued(name=theirs["id"], call=text))
        for kind in {kind for kind, _ in recorded.names}:
            ours = [name for known, name in recorded.names if known == kind]
            theirs = [name for known, name in issued.names if known == kind]
            self._others.update(zip(ours, theirs, strict=False))

    def renamed(self, value: Any) -> Any:
        """A JSON value of a request in this proxy's ids."""
        return self._renamed(value, _Walk())

    def _renamed(self, value: Any, walk: _Walk) -> Any:
        if isinstance(value, str):
            return _LONG.sub(lambda found: self._name(found.group(), walk), value)
        if isinstance(value, Mapping):
            return self._renamed_object(cast("Mapping[str, Any]", value), walk)
        if isinstance(value, Sequence):
            return [self._renamed(item, walk) for item in cast("Sequence[Any]", value)]
        return value

    def _renamed_object(self, value: Mapping[str, Any], walk: _Walk) -> dict[str, Any]:
        called = table(value.get("function")) or value
        named = [key for key in ("call_id", "id") if isinstance(value.get(key), str)]
        key = next((key for key in named if value[key] in self._calls), None)
        if key is None or "name" not in called:
            return {name: self._member(name, item, walk) for name, item in value.items()}
        renamed = {name: self._renamed(item, walk) for name, item in value.items()}
        return {**renamed, key: self._meet(text_of(value[key]), called, walk)}

    def _member(self, key: str, value: Any, walk: _Walk) -> Any:
        if not isinstance(value, str) or key not in _IDS:
            return self._renamed(value, walk)
        return self._answer(value, walk) if key in _RESULTS else self._name(value, walk)

    def _meet(self, old: str, called: Mapping[str, Any], walk: _Walk) -> str:
        """The call of a history that goes under a recorded id."""
        known = self._calls[old]
        met = walk.met.setdefault(old, [])
        fresh = [one for one in known if one.name not in met] or known[-1:]
        text = _call_text(called.get("name"), called.get("arguments", called.get("input")))
        chosen = next((one for one in fresh if one.call == text), fresh[0]).name
        met.append(chosen)
        return chosen

    def _answer(self, old: str, walk: _Walk) -> str:
        """The call whose result goes under a recorded id."""
        met = walk.met.get(old, [])
        name = next((name for name in met if name not in walk.answered), None) or self._name(old, walk)
        walk.answered.add(name)
        return name

    def _name(self, old: str, walk: _Walk) -> str:
        if met := walk.met.get(old):
            return met[-1]
        if known := self._calls.get(old):
            return known[-1].name
        return self._others.get(old, old)


def _call_text(name: Any, arguments: Any) -> str:
    if isinstance(arguments, str):
        found = read_object(arguments or "{}")
        arguments = arguments if found is None else found
    return json.dumps([text_of(name), arguments], sort_keys=True)
