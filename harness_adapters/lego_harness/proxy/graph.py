"""What one session holds: the conversation, its tokens, and where a request attaches to them.

    linear     the request adds messages behind our last reply
    dropped    the harness threw our last reply away and went on without it (a reply it could not
               read, an empty one): the new turn forks off before that reply

Owns one growing path and the paths that forks left behind. Invariants: every sampled token is owned
by exactly one branch, whatever is dropped; tokens behind a fork are copied, never recomputed; a
request that fits neither case raises AlignmentError. Renders nothing and calls no engine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lego_harness.errors import AlignmentError
from lego_harness.proxy.align import messages_without_last_reply, new_messages
from lego_harness.proxy.conversation import Message, Request, Tool
from lego_harness.proxy.tokens import TokenPath
from lego_harness.types import Branch, Generation, TokenIds


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A place between turns where a request may attach."""

    num_messages: int = 0
    num_tokens: int = 0
    num_routed: int = 0
    """Positions before it whose routing rows are recorded."""
    is_open: bool = False
    """The last token is a sampled one that does not end the turn."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """Where a request attaches and what it adds there."""

    mark: Mark
    added: list[Message]
    cause: str = ""
    """Why it forks; empty when it does not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fork:
    """One departure from the linear conversation."""

    turn: int
    """The turn that was sampled behind the fork."""
    message: int
    """Index of the first message that is not shared."""
    cause: str


class MessageGraph:
    """Grows by `record`; `locate` and `context` only look."""

    def __init__(self) -> None:
        self.forks: list[Fork] = []
        self._path = TokenPath()
        self._left_behind: list[tuple[TokenPath, int]] = []  # with the position from which each owns
        self._messages: list[Message] = []
        self._dropped: list[Message] = []  # one per fork
        self._sampled_at: set[int] = set()
        self._tools: list[Tool] = []
        self._num_turns = 0
        self._before, self._now = Mark(), Mark()  # around the last turn

    @property
    def expert_shape(self) -> tuple[int, ...] | None:
        """`(L, K)` of the routing rows so far."""
        return self._path.expert_shape

    def locate(self, request: Request) -> Attachment:
        """Where the request attaches; raises AlignmentError with the first difference."""
        if not self._messages:
            return Attachment(mark=self._now, added=request.messages)
        try:
            added = new_messages(self._messages, self._sampled_at, self._tools, request)
            return Attachment(mark=self._now, added=added)
        except AlignmentError as error:
            asked = self._messages[:-1]
            if not messages_without_last_reply(asked, self._sampled_at, self._tools, request):
                raise
            added = request.messages[self._before.num_messages :]
            return Attachment(mark=self._before, added=added, cause=f"reply dropped: {error}")

    def ids_before(self, mark: Mark) -> TokenIds:
        """The recorded tokens that a request attached at `mark` continues."""
        return self._path.ids(0, mark.num_tokens)

    def record(
        self,
        at: Attachment,
        request: Request,
        delta: TokenIds,
        generation: Generation,
        reply: Message,
        *,
        is_open: bool,
    ) -> TokenPath:
        """Append one turn, forking if its attachment says so; the path that it ends now."""
        if at.cause:
            self._fork(at)
        self._path.append_context(delta)
        self._path.append_sampled(generation)
        self._messages = [*self._messages, *request.messages[len(self._messages) :], reply]
        self._sampled_at.add(len(self._messages) - 1)
        self._tools = request.tools
        self._num_turns += 1
        self._before, self._now = at.mark, self._mark(is_open)
        return self._path

    def branches(self) -> tuple[Branch, ...]:
        """Root-to-leaf paths, the current one first; it owns what it shares with the others."""
        if not len(self._path):
            return ()
        return (self._path.branch(), *(path.branch(owned_from=start) for path, start in self._left_behind))

    def shown(self) -> tuple[dict[str, Any], ...]:
        """The conversation for people; a reply that the harness dropped stands where it was given,
        with the cause under `dropped_by_harness`."""
        messages: list[dict[str, Any]] = [dict(message) for message in self._messages]
        for fork, message in zip(reversed(self.forks), reversed(self._dropped), strict=True):
            messages.insert(fork.message, {**message, "dropped_by_harness": fork.cause})
        return tuple(messages)

    def _mark(self, is_open: bool) -> Mark:
        return Mark(
            num_messages=len(self._messages),
            num_tokens=len(self._path),
            num_routed=self._path.num_routed,
            is_open=is_open,
        )

    def _fork(self, at: Attachment) -> None:
        """Leave the last reply behind with its tokens and go on from before it."""
        asked = len(self._messages) - 1
        self.forks.append(Fork(turn=self._num_turns, message=asked, cause=at.cause))
        self._dropped.append(self._messages[-1])
        self._left_behind.append((self._path, at.mark.num_tokens))
        self._path = self._path.copy(at.mark.num_tokens, at.mark.num_routed)
        self._messages = self._messages[: at.mark.num_messages]
        self._sampled_at.discard(asked)
