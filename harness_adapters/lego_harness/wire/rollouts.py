"""Which calls of a recording belong to one rollout.

    known by                                               example
    the secret in the path                                 /rollout/<secret>/v1/messages
    the root conversation that the harness names           session headers, prompt_cache_key, metadata.user_id
    the parent that a conversation names                   x-parent-session-id
    a call or a text that only another one was answered    a resumed conversation
    a task that another conversation wrote into a call     a sub-agent that names no parent

Owns this table. A call that names nothing belongs to the rollout of the call before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from lego_harness.proxy.strict_json import read_object
from lego_harness.wire.quotes import is_mostly
from lego_harness.wire.recording import Call
from lego_harness.wire.said import Said, dialect_of, is_success, read_reply
from lego_harness.wire.stream import items, table, text_of

NAMES = (
    *("x-claude-code-session-id", "session-id", "x-session-id", "x-litellm-session-id"),
    "x-parent-session-id",
)
IDS = ("tool_call_id", "tool_use_id", "call_id", "id")
SHORTEST_PROMPT = 12
"""Characters."""


def rollouts(calls: Sequence[Call]) -> list[list[Call]]:
    """The calls of each rollout, in the order they began."""
    families = _Families()
    named = [_names(call) for call in calls]
    for names in named:
        families.join(*names)
    _join_by_content(calls, named, families)
    grouped: dict[str, list[Call]] = {}
    last = next((names[0] for names in named if names), "")
    for call, names in zip(calls, named, strict=True):
        last = names[0] if names else last
        grouped.setdefault(families.head(last), []).append(call)
    return list(grouped.values())


def tasks_of(said: Said) -> Iterator[str]:
    """What a reply's calls say that may be a task for another conversation."""
    for call in said.calls:
        yield from _texts(call["function"]["arguments"])


def told_first(body: dict[str, Any]) -> Iterator[str]:
    """What a conversation that has no reply yet was told."""
    conversation = _conversation(body)
    if any(message.get("role") == "assistant" for message in conversation):
        return
    for message in conversation:
        content = message.get("content")
        if message.get("role") == "user":
            texts = [content] if isinstance(content, str) else [part.get("text") for part in items(content)]
            yield from map(text_of, texts)


class _Families:
    """Names that mean the same rollout."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def head(self, name: str) -> str:
        while name in self._above:
            name = self._above[name]
        return name

    def join(self, *names: str) -> None:
        heads = {self.head(name) for name in names}
        for name in sorted(heads)[1:]:
            self._above[name] = min(heads)


def _names(call: Call) -> list[str]:
    """What a call says about its rollout."""
    if call.path.startswith("/rollout/"):
        return [call.path.split("/")[2]]
    headers = {name.lower(): value for name, value in call.headers}
    named = text_of(call.fields.get("prompt_cache_key")), _session_of(table(call.fields.get("metadata")))
    return [name for name in (*named, *(headers.get(name, "") for name in NAMES)) if name]


def _session_of(metadata: dict[str, Any]) -> str:
    """`session_id` itself or, in Claude Code's name for its user, `{"session_id": …}` or `…_session_<id>`."""
    user = text_of(metadata.get("user_id"))
    named = text_of({**metadata, **(read_object(user) or {})}.get("session_id"))
    return named or user.partition("_session_")[2]


def _join_by_content(calls: Sequence[Call], named: Sequence[list[str]], families: _Families) -> None:
    """Join conversations of which one repeats what another was answered, and no other of its own was."""
    told: dict[str, list[str]] = {}
    prompts: list[tuple[str, str]] = []
    for call, names in zip(calls, named, strict=True):
        if not names:
            continue
        for sign in _repeated(call.fields):
            if owners := told.get(sign):
                is_own = families.head(names[0]) in map(families.head, owners)
                families.join(names[0], *([] if is_own else owners[-1:]))
        for prompt, owner in prompts:
            if any(is_mostly(text.strip(), prompt) for text in told_first(call.fields)):
                families.join(names[0], owner)
        said = _said(call)
        for sign in (said.message["content"].strip(), *(made["id"] for made in said.calls)):
            told.setdefault(sign, []).append(names[0])
        prompts += [(text, names[0]) for text in tasks_of(said)]


def _said(call: Call) -> Said:
    dialect = dialect_of(call.path)
    return read_reply(dialect, call.reply) if dialect and call.reply and is_success(call.reply) else Said()


def _repeated(body: dict[str, Any]) -> Iterator[str]:
    """Ids of calls and texts that the assistant said before, as a conversation has them."""
    for message in _conversation(body):
        content = message.get("content")
        parts = (message, *items(content), *items(message.get("tool_calls")))
        signs = [text_of(part.get(key)) for part in parts for key in IDS]
        if message.get("role") == "assistant":
            signs += [
                text_of(content).strip(),
                *(text_of(part.get("text")).strip() for part in items(content)),
            ]
        yield from filter(None, signs)


def _conversation(body: dict[str, Any]) -> list[dict[str, Any]]:
    return items(body.get("messages") or body.get("input"))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in cast("Mapping[str, Any]", value).values():
            yield from _texts(item)
    elif isinstance(value, str) and len(value.strip()) >= SHORTEST_PROMPT:
        yield value.strip()
