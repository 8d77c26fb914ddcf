"""The message graph of one rollout: every engine call, what it continues, and the tokens of each path.

    request ──▶ locate ──▶ attachment ──▶ engine ──▶ record ──▶ exchange ──▶ path of tokens

Nodes are exchanges; a request that continues the end of a path extends it, any other begins a path
that shares the tokens before the fork as context; so does a sub-agent that was given its parent's
history, for the parent goes on too. Invariants: every sampled token is owned by exactly one path;
nothing recorded is recomputed; the cost of a request is that of its new messages.
Renders nothing and calls no engine. Where a request attaches is `locate.py`'s, why is `departure.py`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from lego_harness.proxy.conversation import Message, Request, Tool
from lego_harness.proxy.departure import departure
from lego_harness.proxy.echo import Defaults, declared_defaults, difference, told_apart
from lego_harness.proxy.exchange import Departure, Exchange
from lego_harness.proxy.locate import Match, follow
from lego_harness.proxy.pieces import in_whole_turns
from lego_harness.proxy.route_log import RouteLog
from lego_harness.proxy.tokens import TokenPath
from lego_harness.types import Generation, TokenIds


@dataclass(frozen=True, kw_only=True, slots=True)
class Attachment:
    """Where a request attaches and what it adds there."""

    parent: Exchange | None
    """The exchange it continues; None where it begins a history."""
    asked: list[Message]
    """Its messages, turns that came in pieces put together."""
    added: list[Message]
    """Those of them behind the parent's reply."""
    departure: Departure
    num_exchanges: int
    """Exchanges there were when it was found; more may be recorded before this one is."""

    @property
    def num_tokens(self) -> int:
        """Recorded tokens that it continues."""
        return self.parent.end if self.parent else 0

    @property
    def num_routed(self) -> int:
        """Positions before which routing rows are recorded."""
        return self.parent.num_routed if self.parent else 0


class MessageGraph:
    """Grows by `record`; everything else only looks."""

    def __init__(self, route_log: RouteLog) -> None:
        self.route_log = route_log
        self.exchanges: list[Exchange] = []
        self.paths: list[TokenPath] = []
        self.expert_shape: tuple[int, ...] | None = None
        """`(L, K)` of the routing rows so far."""
        self._leaves: dict[str, list[Exchange]] = {}  # by conversation, the latest last
        self._by_call: dict[str, Exchange] = {}
        self._by_text: dict[str, list[Exchange]] = {}  # the latest last
        self._tools: list[Tool] = []
        self._defaults: Defaults = {}

    def locate(self, request: Request) -> Attachment:
        """Where the request attaches: behind the longest history that it repeats."""
        at = self._locate(request)
        if at.departure.cause and (whole := in_whole_turns(request.messages, self._by_call)):
            return self._locate(replace(request, messages=whole))
        return at

    def _locate(self, request: Request) -> Attachment:
        matches: list[Match] = []
        speaker = self._last_speaker(request.messages)
        for leaf in self._candidates(request, speaker):
            matches.append(follow(leaf, request, self._by_call))
            if matches[-1].is_linear and not _is_left_to_others(leaf, request):
                return self._attachment(matches[-1], request, Departure())
        best = max(matches, key=lambda match: (*match.rank(), match.leaf is speaker), default=Match())
        return self._attachment(best, request, departure(best, request, self.exchanges))

    def known(self, message: Message, before: Message | None, request: Request) -> Exchange | None:
        """The exchange whose reply this assistant message repeats; None when nobody sampled it here.

        Of several that said the same, the one that answered the message before it, else the latest.
        """
        declared, named = self._declared(request.tools), self._said_by(message)
        same = [x for x in named if not difference(x.reply, message, declared, self._by_call)]
        answers = [x for x in same if x.asked[-1:] == [before]]
        return next(reversed(answers or same), None)

    def ids_before(self, at: Attachment) -> TokenIds:
        """The recorded tokens that a request attached at `at` continues."""
        return at.parent.path.ids(0, at.num_tokens) if at.parent else np.zeros(0, np.int32)

    def record(
        self,
        at: Attachment,
        request: Request,
        delta: TokenIds,
        generation: Generation,
        reply: Message,
        *,
        is_open: bool,
    ) -> Exchange:
        """Add one exchange with its tokens; the path it stands on ends with it. Raises EngineError,
        before anything is changed, when its routing rows cannot be kept."""
        routes = None if generation.routes is None else self.route_log.append(generation.routes)
        if at.num_exchanges != len(self.exchanges):  # others were recorded while the engine worked
            at = replace(at, departure=self.locate(request).departure)
        path = self._path(at, request)
        path.append_context(delta)
        start = len(path)
        path.append_sampled(generation, routes)
        if routes is not None:
            self.expert_shape = routes.shape[1:]
        exchange = Exchange(
            index=len(self.exchanges),
            caller=request.caller,
            parent=at.parent,
            asked=at.asked,
            num_added=len(at.added),
            tools=request.tools,
            defaults=self._declared(request.tools),
            reply=reply,
            departure=at.departure,
            path=path,
            start=start,
            end=len(path),
            num_routed=path.num_routed,
            routes=routes,
            is_open=is_open,
            facts=request.asked,
        )
        self._add(exchange)
        if at.departure.quotes >= 0:
            self.exchanges[at.departure.quotes].is_quoted = True
        return exchange

    def _declared(self, tools: list[Tool]) -> Defaults:
        """The tools' defaults; requests that offer the same tools share the list."""
        if tools is not self._tools:
            self._tools, self._defaults = tools, declared_defaults(tools)
        return self._defaults

    def _attachment(self, match: Match, request: Request, why: Departure) -> Attachment:
        num_known = match.exchange.num_messages if match.exchange else 0
        return Attachment(
            parent=match.exchange,
            asked=request.messages,
            added=request.messages[num_known:],
            departure=why,
            num_exchanges=len(self.exchanges),
        )

    def _path(self, at: Attachment, request: Request) -> TokenPath:
        """The parent's own path where it ends with the parent and is not left to others, else a new one."""
        if at.parent and at.parent.is_last and not _is_left_to_others(at.parent, request):
            return at.parent.path
        path = at.parent.path.fork(at.num_tokens, at.num_routed) if at.parent else TokenPath()
        self.paths.append(path)
        return path

    def _add(self, exchange: Exchange) -> None:
        leaves = self._leaves.setdefault(exchange.caller.thread, [])
        if exchange.parent is not None and exchange.parent in leaves:
            leaves.remove(exchange.parent)
        leaves.append(exchange)
        self.exchanges.append(exchange)
        for call in exchange.reply.get("tool_calls", []):
            self._by_call[call["id"]] = exchange
        self._by_text.setdefault(_key(exchange.reply), []).append(exchange)

    def _candidates(self, request: Request, speaker: Exchange | None) -> list[Exchange]:
        """Ends of histories that the request may repeat, the likeliest first."""
        leaves = self._leaves.get(request.caller.thread)
        if leaves is None:  # a conversation that is new here may go on with one under another name
            return [leaf for others in self._leaves.values() for leaf in reversed(others)]
        is_elsewhere = speaker is not None and speaker.caller.thread != request.caller.thread
        elsewhere = [speaker] if speaker is not None and is_elsewhere else []
        return [*reversed(leaves), *elsewhere]

    def _last_speaker(self, messages: list[Message]) -> Exchange | None:
        """Whose reply the last turn is that was sampled here, by the ids of its calls or by its text."""
        turns = (self._said_by(message) for message in reversed(messages) if message["role"] == "assistant")
        return next((named[-1] for named in turns if named), None)

    def _said_by(self, message: Message) -> Sequence[Exchange]:
        """Who may have said an assistant's message, the latest last."""
        for call in message.get("tool_calls", []):
            if owner := self._by_call.get(call["id"]):
                return [owner]
        return self._by_text.get(_key(message), [])


def _key(message: Message) -> str:
    """What a turn is found by: its text, and whether it calls tools."""
    return f"{len(message.get('tool_calls', []))} {told_apart(message['content'])[0]}"


def _is_left_to_others(exchange: Exchange, request: Request) -> bool:
    """Whether a sub-agent asks, and it is of the conversation that the sub-agent was given."""
    return request.caller.is_sub_agent and request.caller.thread != exchange.caller.thread
