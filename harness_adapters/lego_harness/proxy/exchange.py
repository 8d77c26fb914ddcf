"""One engine call in the message graph: what was asked, what was sampled, what it continues.

Owns the record and the walk to the root. Invariant: an exchange never changes once it is recorded,
but for its marks: whether its reply was delivered whole, whether a delivery of it broke off, and
whether a later request quotes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from lego_harness.proxy.caller import Caller
from lego_harness.proxy.conversation import Message, Tool
from lego_harness.proxy.echo import Defaults
from lego_harness.proxy.route_log import RouteBlock
from lego_harness.proxy.tokens import TokenPath


class Cause(StrEnum):
    """Why an exchange does not simply continue the one before it in its conversation."""

    LINEAR = ""
    START = "start"
    """The first call of the rollout."""
    SUB_AGENT = "sub_agent"
    """The first call of another conversation of the same rollout."""
    SIDE_CALL = "side_call"
    """A call beside the conversation: a title, a probe, a summary of the history as text."""
    COMPACTION = "compaction"
    """A history begun anew around a text that the policy wrote for it."""
    NEW_CONVERSATION = "new_conversation"
    """A history that shares nothing with the ones before."""
    TOOLS_CHANGED = "tools_changed"
    RESAMPLED = "resampled"
    """The same request again, although its reply was delivered."""
    HISTORY_CUT = "history_cut"
    """The history ends earlier than it did."""
    HISTORY_EDITED = "history_edited"
    """A message that nobody sampled was changed, added or removed within the history."""
    REPLY_DROPPED = "reply_dropped"
    """The history goes on without the policy's reply."""
    REPLY_EDITED = "reply_edited"
    """The policy's reply came back with another meaning."""
    REPLY_ABORTED = "reply_aborted"
    """As `reply_dropped` for a reply that did not arrive, or as `reply_edited` for one of which a delivery
    broke off: what came back may be the part that arrived first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Departure:
    """Where and why an exchange leaves what was there before it."""

    cause: Cause = Cause.LINEAR
    at: int = 0
    """Index of the first message that differs."""
    detail: str = ""
    quotes: int = -1
    """Index of the exchange whose text the new history is begun around."""


@dataclass(kw_only=True, slots=True, eq=False)
class Exchange:
    """A node of the message graph."""

    index: int
    """Of its turn."""
    caller: Caller
    parent: Exchange | None
    asked: list[Message]
    """The whole history as the harness sent it; its objects are shared with other requests'."""
    num_added: int
    """Messages at the end of `asked` that stand behind the parent's reply."""
    tools: list[Tool]
    defaults: Defaults
    """Declared by the tools."""
    reply: Message
    departure: Departure
    path: TokenPath
    start: int
    """Position of the first sampled token."""
    end: int
    num_routed: int
    """Positions before which routing rows are recorded."""
    routes: RouteBlock | None
    """The rows that this call was first to record; None where the engine has none."""
    is_open: bool
    """The last token is a sampled one that does not end the turn."""
    is_delivered: bool = False
    was_lost: bool = False
    """A delivery broke off, and the reply was asked for again."""
    is_quoted: bool = False
    """A later history was begun anew around its text."""
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the harness asked of sampling; for the record."""

    @property
    def is_last(self) -> bool:
        """Nothing has gone on where it ends, but for sub-agents, whose paths are their own."""
        return len(self.path) == self.end

    @property
    def num_messages(self) -> int:
        """Length of the history with its reply."""
        return len(self.asked) + 1

    def line(self) -> Iterator[Exchange]:
        """This exchange and those before it, up to the root."""
        at: Exchange | None = self
        while at is not None:
            yield at
            at = at.parent
