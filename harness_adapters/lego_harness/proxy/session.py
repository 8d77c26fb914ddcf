"""One rollout's conversations with the proxy: its turns, its budget, its end.

    request → retry? → within budget? → attaches where? → engine → recorded → reply

Owns what may be asked of the engine, and when no more. Invariants: a turn is recorded whole or not
at all; ids are never rewritten; a delivered reply is never replayed; the first failure or used-up
budget ends the session, sets `ended`, and every later request is refused, while calls under way are
recorded if they end before the session is closed. Equal requests wait for one another, different ones
run side by side, so that sub-agents do. Speaks no wire format.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import numpy as np

from lego_harness.adapters.base import Endpoint
from lego_harness.errors import AlignmentError, EngineError, UsageError
from lego_harness.proxy.boundary import checked
from lego_harness.proxy.capture import Capture, make_capture
from lego_harness.proxy.clients import Places
from lego_harness.proxy.context import render_added
from lego_harness.proxy.conversation import Reply, Request
from lego_harness.proxy.dialects.reader import Reader
from lego_harness.proxy.exchange import Exchange
from lego_harness.proxy.graph import Attachment, MessageGraph
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.render import Renderer, TooLong
from lego_harness.proxy.reply import read_reply
from lego_harness.proxy.route_log import RouteLog
from lego_harness.proxy.upstream import Engine
from lego_harness.types import (
    Budget,
    GenerateRequest,
    Generation,
    Sampling,
    StopReason,
    TokenIds,
    Turn,
)


@dataclass(kw_only=True, slots=True)
class _Serving:
    """Equal requests that are being served, one after the other."""

    lock: asyncio.Lock
    num_users: int = 0


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
        route_log: RouteLog,
        on_close: Callable[[], None],
    ) -> None:
        self.rollout_id = rollout_id
        self.endpoint = endpoint
        self.ended = asyncio.Event()
        """Set when a budget is used up or something failed: the harness should be killed."""
        self.reader = Reader()
        """Reads its requests, each at the cost of what it adds."""
        self.places = Places()
        """Bounds how many of its requests are served at once."""
        self._engine, self._renderer = engine, renderer
        self._sampling, self._budget = sampling, budget
        self._on_close = on_close
        self._opened_s = time.monotonic()
        self._graph = MessageGraph(route_log)
        self._turns: list[Turn] = []
        self._num_sampled = 0
        self._serving: dict[str, _Serving] = {}
        self._undelivered: dict[str, tuple[Reply, Exchange]] = {}  # by fingerprint
        self._calls: set[asyncio.Future[Generation]] = set()
        self._num_calls = 0
        """Calls begun; an engine may still be dropping a cancelled one when its repetition comes."""
        self._next_turn = 0
        """Number of the next call for its seed: a call that was given up is asked again with the same."""
        self._stop: StopReason | None = None
        self._error = ""
        self._is_closed = False
        self._capture: Capture | None = None

    # --- what the proxy calls --------------------------------------------------------------------

    @asynccontextmanager
    async def exchange(self, request: Request) -> AsyncGenerator[None]:
        """Held by whoever serves a request, from reading it until its reply is delivered."""
        key = _key(request)
        serving = self._serving.setdefault(key, _Serving(lock=asyncio.Lock()))
        serving.num_users += 1
        try:
            async with serving.lock:
                yield
        finally:
            serving.num_users -= 1
            if not serving.num_users:
                del self._serving[key]

    async def answer(self, request: Request) -> Reply:
        """The reply to a request; raises Refusal. Cancelling frees the engine and records nothing."""
        self._refuse_if_over()
        if lost := self._undelivered.get(_key(request)):
            lost[1].was_lost = True
            return lost[0]
        try:
            self._check_budget()
            return await self._take_turn(request, self._graph.locate(request))
        except AlignmentError as error:
            raise self.end(StopReason.FAILED_ALIGNMENT, f"after turn {len(self._turns)}: {error}") from error
        except EngineError as error:
            raise self.end(StopReason.FAILED_ENGINE, str(error)) from error

    def delivered(self, request: Request) -> None:
        """The whole reply was handed to the harness: from now on it is never replayed."""
        if lost := self._undelivered.pop(_key(request), None):
            lost[1].is_delivered = True

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
        """Refuse every further request, drop the calls in flight, and hand over the record."""
        if self._capture is None:
            self._is_closed = True
            self._on_close()
            for call in self._calls:
                call.cancel()
            self._capture = self._captured()
        return self._capture

    def _captured(self) -> Capture:
        routes = b""
        try:
            routes = self._graph.route_log.close()
        except EngineError as error:
            if self._stop is None or not self._stop.is_failure:  # a rollout without its rows is no result
                self._stop, self._error = StopReason.FAILED_ENGINE, str(error)
        return make_capture(self._graph, self._turns, routes, stop=self._stop, error=self._error)

    # --- one turn --------------------------------------------------------------------------------

    def _check_budget(self) -> None:
        if len(self._turns) + len(self._calls) >= self._budget.max_turns:
            raise self.end(StopReason.TRUNCATED_TURNS)
        if self._tokens_left() <= 0:
            raise self.end(StopReason.TRUNCATED_TOKENS)

    def _tokens_left(self) -> int:
        """Calls side by side may each use what was left when they began."""
        return self._budget.max_tokens - self._num_sampled

    async def _take_turn(self, request: Request, at: Attachment) -> Reply:
        try:
            delta = render_added(self._renderer, self._graph, at, request)
        except TooLong as error:
            raise self._beyond_the_engine(str(error)) from error
        except AlignmentError as error:
            if at.parent is None and self._turns:  # whoever in the sandbox reads the address may begin one
                raise Refusal(str(error)) from error
            raise
        call = self._engine_request(np.concatenate([self._graph.ids_before(at), delta]), at)
        started_s = time.monotonic() - self._opened_s
        generation = await self._generate(call)
        reply = self._record(request, at, call, delta, generation, started_s)
        self._refuse_if_over()  # what was sampled while the rollout ended is recorded all the same
        return reply

    def _engine_request(self, context: TokenIds, at: Attachment) -> GenerateRequest:
        room = self._renderer.max_model_len - len(context)
        if room < 1:
            raise self._beyond_the_engine(f"{len(context)} tokens")
        if not self._calls:
            self._next_turn = len(self._turns)
        index, self._next_turn = self._next_turn, self._next_turn + 1
        return GenerateRequest(
            request_id=f"{self.rollout_id}.a{self._num_calls}.t{index}",
            context_ids=context,
            sampling=replace(
                self._sampling,
                max_tokens=min(self._sampling.max_tokens, self._tokens_left(), room),
                seed=None if self._sampling.seed is None else call_seed(self._sampling.seed, index),
            ),
            stop_ids=self._renderer.vocabulary.stop_ids,
            routes_from=at.num_routed,
        )

    def _beyond_the_engine(self, size: str) -> Refusal | EngineError:
        """What becomes of a context of that size."""
        if self._turns:
            return self.end(StopReason.TRUNCATED_TOKENS)
        limit = self._renderer.max_model_len
        return EngineError(f"engine: the first context has {size}, max_model_len is {limit}; raise it")

    async def _generate(self, request: GenerateRequest) -> Generation:
        self._num_calls += 1
        call = asyncio.ensure_future(self._engine.generate(request))
        self._calls.add(call)
        try:
            generation = await call
        except asyncio.CancelledError:
            if self._is_closed:
                raise self._refusal() from None  # `close` cancelled the engine call, not us
            raise
        finally:
            self._calls.discard(call)
        if self._is_closed:
            raise self._refusal()
        return checked(
            generation,
            request,
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
        index = len(self._turns)
        reply = read_reply(
            request,
            generation,
            self._renderer,
            identity=f"{self.rollout_id}/{index}",
            num_context=len(call.context_ids),
        )
        is_open = int(generation.ids[-1]) != self._renderer.vocabulary.end_of_turn
        exchange = self._graph.record(at, request, delta, generation, reply.message, is_open=is_open)
        path, start = exchange.path, exchange.start
        self._turns.append(
            Turn(
                index=index,
                context_ids=path.ids(0, start),
                sampled_ids=path.ids(start),
                logprobs=path.logprobs(start),
                routes=None,  # on disk until the end
                routes_from=call.routes_from,
                policy_version=generation.policy_version,
                versions=generation.versions,
                finish_reason=generation.finish_reason,
                fingerprint=request.fingerprint,
                started_s=started_s,
                ended_s=time.monotonic() - self._opened_s,
                thread=request.caller.thread,
            )
        )
        self._num_sampled += len(generation.ids)
        self._undelivered[_key(request)] = reply, exchange
        return reply

    # --- the end ---------------------------------------------------------------------------------

    def _refuse_if_over(self) -> None:
        if self._is_closed or self._stop is not None:
            raise self._refusal()

    def _refusal(self) -> Refusal:
        why = self._stop.value if self._stop else "it was closed"
        return Refusal(f"this rollout has ended ({why}); no further request is served")


def _key(request: Request) -> str:
    """What makes two requests the same one, asked again."""
    return f"{request.caller.thread}/{request.fingerprint}"


def call_seed(rollout_seed: int, turn: int) -> int:
    """Seed of one engine call, in [0, 2³¹)."""
    digest = hashlib.sha256(f"{rollout_seed}/{turn}".encode()).digest()
    return int.from_bytes(digest[:4]) >> 1
