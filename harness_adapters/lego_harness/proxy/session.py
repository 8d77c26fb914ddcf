"""One rollout's conversation with the proxy: its turns, its budget, its end.

    request → retry? → within budget? → attaches where? → engine → recorded → reply

Owns what may be asked of the engine, and when no more. Invariants: a turn is recorded whole or not
at all; ids are never rewritten; the first failure or used-up budget ends the session, sets `ended`,
and every later request is refused. One request at a time: callers hold `exchange` from reading to
delivery. Speaks no wire format.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lego_harness.adapters.base import Endpoint
from lego_harness.errors import AlignmentError, EngineError, UsageError
from lego_harness.proxy.boundary import checked
from lego_harness.proxy.conversation import Reply, Request
from lego_harness.proxy.graph import Attachment, Fork, Mark, MessageGraph
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.reply import read_reply
from lego_harness.proxy.upstream import Engine
from lego_harness.types import (
    Branch,
    Budget,
    GenerateRequest,
    Generation,
    Sampling,
    StopReason,
    TokenIds,
    Turn,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Capture:
    """What a closed session saw."""

    turns: tuple[Turn, ...]
    branches: tuple[Branch, ...]
    """The conversation as it ended, then one per dropped reply; none when nothing was sampled."""
    messages: tuple[dict[str, Any], ...]
    """The canonical conversation, the policy's turns as they were sampled."""
    forks: tuple[Fork, ...] = ()
    """Where the conversation was not linear, and why."""
    asked: tuple[dict[str, Any], ...]
    """Per turn, the sampling parameters and model name the harness wanted."""
    stop: StopReason | None
    """The budget that ran out or the failure that ended it; None when the harness stopped by itself."""
    error: str


class Session:
    """Opened by `CaptureProxy.open_session`; closed once, which yields the capture."""

    def __init__(
        self,
        *,
        rollout_id: str,
        endpoint: Endpoint,
        engine: Engine,
        renderer: Renderer,
        sampling: Sampling,
        budget: Budget,
        on_close: Callable[[], None],
    ) -> None:
        self.rollout_id = rollout_id
        self.endpoint = endpoint
        self.ended = asyncio.Event()
        """Set when a budget is used up or something failed: the harness should be killed."""
        self.exchange = asyncio.Lock()
        """Held by whoever serves a request of this session, until its reply is delivered."""
        self._engine, self._renderer = engine, renderer
        self._sampling, self._budget = sampling, budget
        self._on_close = on_close
        self._opened_s = time.monotonic()
        self._graph = MessageGraph()
        self._turns: list[Turn] = []
        self._asked: list[dict[str, Any]] = []
        self._undelivered: tuple[str, Reply] | None = None
        self._call: asyncio.Future[Generation] | None = None
        self._num_calls = 0
        """Calls begun; an engine may still be dropping a cancelled one when its repetition comes."""
        self._stop: StopReason | None = None
        self._error = ""
        self._is_closed = False

    # --- what the proxy calls --------------------------------------------------------------------

    async def answer(self, request: Request) -> Reply:
        """The reply to a request; raises Refusal. Cancelling frees the engine and records nothing."""
        self._refuse_if_over()
        if self._undelivered and self._undelivered[0] == request.fingerprint:
            return self._undelivered[1]
        try:
            self._check_budget()
            return await self._take_turn(request, self._graph.locate(request))
        except AlignmentError as error:
            raise self.end(StopReason.FAILED_ALIGNMENT, f"after turn {len(self._turns)}: {error}") from error
        except EngineError as error:
            raise self.end(StopReason.FAILED_ENGINE, str(error)) from error

    def delivered(self, reply: Reply) -> None:
        """The whole reply was handed to the harness: from now on it is never replayed."""
        if self._undelivered and self._undelivered[1].id == reply.id:
            self._undelivered = None

    def count_tokens(self, request: Request) -> int:
        """Length of the context that `request` would make from nothing."""
        self._refuse_if_over()
        try:
            return len(self._renderer.render(request.messages, request.tools))
        except UsageError as error:
            raise Refusal(str(error)) from error

    def end(self, stop: StopReason, error: str = "") -> Refusal:
        """End the rollout for the first cause given; the answer for whoever is waiting."""
        if self._stop is None and not self._is_closed:
            self._stop, self._error = stop, error
            self.ended.set()
        return self._refusal()

    # --- what the rollout calls ------------------------------------------------------------------

    def close(self) -> Capture:
        """Refuse every further request, drop the call in flight, and hand over the record."""
        if not self._is_closed:
            self._is_closed = True
            self._on_close()
            if self._call is not None:
                self._call.cancel()
        return Capture(
            turns=tuple(self._turns),
            branches=self._graph.branches(),
            messages=self._graph.shown(),
            forks=tuple(self._graph.forks),
            asked=tuple(self._asked),
            stop=self._stop,
            error=self._error,
        )

    # --- one turn --------------------------------------------------------------------------------

    def _check_budget(self) -> None:
        if len(self._turns) >= self._budget.max_turns:
            raise self.end(StopReason.TRUNCATED_TURNS)
        if self._tokens_left() <= 0:
            raise self.end(StopReason.TRUNCATED_TOKENS)

    def _tokens_left(self) -> int:
        return self._budget.max_tokens - sum(len(turn.sampled_ids) for turn in self._turns)

    async def _take_turn(self, request: Request, at: Attachment) -> Reply:
        delta = self._render(request, at)
        call = self._engine_request(np.concatenate([self._graph.ids_before(at.mark), delta]), at.mark)
        started_s = time.monotonic() - self._opened_s
        generation = await self._generate(call)
        return self._record(request, at, call, delta, generation, started_s)

    def _render(self, request: Request, at: Attachment) -> TokenIds:
        """Context ids behind the mark; the whole context when nothing lies before it."""
        try:
            if not at.mark.num_messages:
                return np.array(self._renderer.render(request.messages, request.tools), np.int32)
            closing = [self._renderer.vocabulary.end_of_turn] if at.mark.is_open else []
            delta = self._renderer.render_delta(at.added) + self._renderer.generation_prompt
            return np.array(closing + delta, np.int32)
        except UsageError as error:
            raise AlignmentError(str(error)) from error

    def _engine_request(self, context: TokenIds, mark: Mark) -> GenerateRequest:
        index = len(self._turns)
        room = self._renderer.max_model_len - len(context)
        if room < 1 and not index:
            limit = self._renderer.max_model_len
            raise EngineError(
                f"engine: the first context has {len(context)} tokens, max_model_len is {limit}; raise it"
            )
        if room < 1:
            raise self.end(StopReason.TRUNCATED_TOKENS)
        return GenerateRequest(
            request_id=f"{self.rollout_id}.a{self._num_calls}.t{index}",
            context_ids=context,
            sampling=replace(
                self._sampling,
                max_tokens=min(self._sampling.max_tokens, self._tokens_left(), room),
                seed=None if self._sampling.seed is None else call_seed(self._sampling.seed, index),
            ),
            stop_ids=self._renderer.vocabulary.stop_ids,
            routes_from=mark.num_routed,
        )

    async def _generate(self, call: GenerateRequest) -> Generation:
        self._num_calls += 1
        self._call = asyncio.ensure_future(self._engine.generate(call))
        try:
            generation = await self._call
        except asyncio.CancelledError:
            if self._is_closed:
                raise self._refusal() from None  # `close` cancelled the engine call, not us
            raise
        finally:
            self._call = None
        self._refuse_if_over()
        return checked(
            generation,
            call,
            vocab_size=self._renderer.vocabulary.size,
            expert_shape=self._graph.expert_shape,
        )

    def _record(
        self,
        request: Request,
        at: Attachment,
        call: GenerateRequest,
        delta: TokenIds,
        generation: Generation,
        started_s: float,
    ) -> Reply:
        """Everything a turn changes, in one step without an await."""
        reply = read_reply(
            request,
            generation,
            self._renderer,
            identity=f"{self.rollout_id}/{len(self._turns)}",
            num_context=len(call.context_ids),
        )
        is_open = int(generation.ids[-1]) != self._renderer.vocabulary.end_of_turn
        path = self._graph.record(at, request, delta, generation, reply.message, is_open=is_open)
        start = len(call.context_ids)
        self._turns.append(
            Turn(
                index=len(self._turns),
                context_ids=path.ids(0, start),
                sampled_ids=path.ids(start),
                logprobs=path.logprobs(start),
                routes=generation.routes,
                routes_from=call.routes_from,
                policy_version=generation.policy_version,
                finish_reason=generation.finish_reason,
                fingerprint=request.fingerprint,
                started_s=started_s,
                ended_s=time.monotonic() - self._opened_s,
            )
        )
        self._asked.append(request.asked)
        self._undelivered = (request.fingerprint, reply)
        return reply

    # --- the end ---------------------------------------------------------------------------------

    def _refuse_if_over(self) -> None:
        if self._is_closed or self._stop is not None:
            raise self._refusal()

    def _refusal(self) -> Refusal:
        why = self._stop.value if self._stop else "it was closed"
        return Refusal(f"this rollout has ended ({why}); no further request is served")


def call_seed(rollout_seed: int, turn: int) -> int:
    """Seed of one engine call, in [0, 2³¹)."""
    digest = hashlib.sha256(f"{rollout_seed}/{turn}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1
