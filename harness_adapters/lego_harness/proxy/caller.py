"""Who speaks: the conversation a request belongs to, told from the harness's own headers.

    harness          conversation              its parent
    Claude Code      x-claude-code-agent-id    x-claude-code-parent-agent-id
    Codex            thread-id                 x-codex-parent-thread-id
    OpenCode         x-session-id              x-parent-session-id
    OpenHands        x-litellm-session-id      (none: the rollout's first conversation)

Claude Code names the conversations of sub-agents only, and a parent only where that is one itself.
Owns this table. A harness that sends none of them has one conversation, told apart by content
alone. The values are labels: they open nothing, the secret in the path does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lego_harness.proxy.strict_json import without_surrogates

MAX_NAME = 200
_AGENT = "x-claude-code-agent-id"
_HEADERS = (
    (_AGENT, "x-claude-code-parent-agent-id"),
    ("thread-id", "x-codex-parent-thread-id"),
    ("x-session-id", "x-parent-session-id"),
    ("x-litellm-session-id", ""),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """One conversation of a rollout."""

    thread: str = ""
    """Empty where the harness does not name it."""
    parent: str = ""
    """The conversation that started it; empty for the first one and where it is not named."""
    is_sub_agent: bool = False
    """Whether its headers say that another conversation started it."""


def caller_of(headers: Mapping[str, str]) -> Caller:
    """The conversation named by a request's headers, whose keys are matched as `headers` does."""
    for name, parent in _HEADERS:
        if thread := _text(headers, name):
            above = _text(headers, parent)
            return Caller(thread=thread, parent=above, is_sub_agent=bool(above) or name == _AGENT)
    return Caller()


def _text(headers: Mapping[str, str], name: str) -> str:
    """A header's value; bytes that are no UTF-8, which would be lone surrogates, replaced."""
    return without_surrogates(headers.get(name, ""))[:MAX_NAME]
