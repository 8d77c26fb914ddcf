"""Drives recorded traffic through a proxy whose engine says what was recorded.

    call ─▶ ids and quotations of this proxy ─▶ HTTP ─▶ session ─▶ scripted engine
         ◀─ the ids it issued ◀── reply in the dialect ◀──┘

Owns the order of things: calls go one after another as they began, each in its rollout's session, and
what the engine says to each is known before it is asked. Judges nothing; see `outcome.py`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from lego_harness.errors import UsageError
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.capture import Capture
from lego_harness.proxy.refusal import Refusal
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.session import Session
from lego_harness.proxy.strict_json import encode
from lego_harness.types import Budget, GenerateRequest, Sampling
from lego_harness.wire.lines import Lines, said_to
from lego_harness.wire.names import Names
from lego_harness.wire.quotes import Quotes
from lego_harness.wire.recording import Call
from lego_harness.wire.rollouts import rollouts, tasks_of, told_first
from lego_harness.wire.said import Said, dialect_of, read_text
from lego_harness.wire.scripted import Line, ScriptedEngine
from lego_harness.wire.tap import Heard, Tap

UNLIMITED = Budget(max_turns=2**31, max_tokens=2**40, max_seconds=1e9)
SAMPLING = Sampling(max_tokens=2**30)
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "content-encoding",
     "authorization", "x-api-key", "expect", "keep-alive", "te", "trailer", "upgrade"}
)  # fmt: skip
"""Headers that belong to the connection or to the server of the time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Surprise:
    """An answer of another kind than the recorded one."""

    n: int
    recorded: int
    got: int
    """Statuses; 0 where there was no answer."""
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """One rollout of a recording, as the proxy captured it."""

    capture: Capture
    num_sampled: int
    """Tokens the engine handed out for it."""
    surprises: tuple[Surprise, ...]


async def replay(calls: Sequence[Call], renderer: Renderer) -> list[Replayed]:
    """Replay a recording; its rollouts in the order they began. Raises UsageError for a call that cannot
    be sent at all."""
    stage = _Stage()
    stage.engine = ScriptedEngine(renderer, stage.directs)
    with tempfile.TemporaryDirectory(prefix="lego-replay-") as folder:
        proxy = CaptureProxy(stage.engine, renderer, socket_dir=Path(folder), tap=stage.tap)
        try:
            await proxy.start()
            async with aiohttp.ClientSession() as stage.http:
                played = [_Rollout(group, _open(proxy, i), stage) for i, group in enumerate(rollouts(calls))]
                owners = {call.n: rollout for rollout in played for call in rollout.calls}
                for call in calls:
                    await owners[call.n].play(call)
            return [rollout.finished() for rollout in played]
        finally:
            await proxy.close()


def _open(proxy: CaptureProxy, index: int) -> Session:
    return proxy.open_session(f"replay.{index}", SAMPLING, UNLIMITED)


class _Stage:
    """What all rollouts of a replay share, and the call in progress."""

    engine: ScriptedEngine
    http: aiohttp.ClientSession

    def __init__(self) -> None:
        self.tap = Tap(self._hears)
        self.line: Line | Refusal | None = None
        """What the engine is to say."""
        self.heard: Heard | None = None
        """What the proxy answered."""

    def directs(self, request: GenerateRequest) -> Line | Refusal:
        return self.line or Refusal("the recording has no reply to this request", HTTPStatus.CONFLICT)

    def _hears(self, heard: Heard) -> None:
        self.heard = heard


@dataclass(kw_only=True, slots=True)
class _Answer:
    """What a client got."""

    status: int = 0
    """0 where the connection broke."""
    text: str = ""


@dataclass(kw_only=True, slots=True)
class _Known:
    """What was learnt from the answers so far."""

    names: Names = field(default_factory=Names)
    quotes: Quotes = field(default_factory=Quotes)


class _Rollout:
    """The calls of one rollout, played into one session."""

    def __init__(self, calls: Sequence[Call], session: Session, stage: _Stage) -> None:
        self.calls = calls
        self._session, self._stage = session, stage
        self._lines, self._known = Lines(calls), _Known()
        self._num_sampled = 0
        self._surprises: list[Surprise] = []

    async def play(self, call: Call) -> None:
        """Send one call and learn from its answer."""
        stage, before = self._stage, self._stage.engine.num_sampled
        line, is_lost = self._lines.line(call) if dialect_of(call.path) else (None, False)
        stage.line, stage.heard, stage.tap.breaks_off = line, None, is_lost
        answer = await self._send(call)
        self._num_sampled += stage.engine.num_sampled - before
        if not is_lost and not _is_expected(call, line, answer):
            recorded = call.reply.status if call.reply else 0
            self._surprises.append(
                Surprise(n=call.n, recorded=recorded, got=answer.status, message=answer.text[:300])
            )
        self._learn(call)

    def finished(self) -> Replayed:
        """Close the session."""
        return Replayed(
            capture=self._session.close(), num_sampled=self._num_sampled, surprises=tuple(self._surprises)
        )

    async def _send(self, call: Call) -> _Answer:
        url = URL(self._session.endpoint.host_url + _tail(call.path), encoded=True)
        headers = [(name, value) for name, value in call.headers if name.lower() not in OURS]
        request = self._stage.http.request(
            call.method, url, headers=headers, data=self._body(call), allow_redirects=False
        )
        try:
            async with request as response:
                return _Answer(status=response.status, text=await response.text(errors="replace"))
        except aiohttp.ClientError as error:
            return _Answer(text=str(error))
        except ValueError as error:
            raise UsageError(f"recorded request {call.n} cannot be sent: {error}") from error

    def _body(self, call: Call) -> bytes | None:
        if call.body is None or isinstance(call.body, str):
            return (call.body or "").encode() or None
        body = self._known.names.renamed(call.body)
        for text in told_first(body):
            self._known.quotes.begin(text)
        for key in ("messages", "input"):
            if isinstance(call.fields.get(key), list):
                body[key] = [self._known.quotes.restored(message) for message in body[key]]
        return encode(body).encode()

    def _learn(self, call: Call) -> None:
        """Which ids the proxy gave to what was recorded, and what the policy said."""
        heard, dialect = self._stage.heard, dialect_of(call.path)
        recorded = said_to(call) if dialect else None
        if heard is None or heard.status != HTTPStatus.OK or not isinstance(recorded, Said):
            return
        issued = read_text(dialect, heard.written.decode("utf-8", "replace"), is_stream=heard.is_stream)
        self._known.names.learn(recorded, issued)
        self._known.quotes.add(recorded.message["content"])
        for task in tasks_of(recorded):
            self._known.quotes.add_task(task)


def _is_expected(call: Call, line: Line | Refusal | None, answer: _Answer) -> bool:
    if isinstance(line, Refusal):
        return answer.status == line.status
    recorded: Any = call.reply.status if call.reply else 0
    return 200 <= answer.status < 300 or not 200 <= recorded < 300


def _tail(path: str) -> str:
    """Where the proxy serves what was recorded at a path."""
    if path.startswith("/rollout/"):
        path = "/" + "/".join(path.split("/")[3:])
    if dialect := dialect_of(path):
        return PATHS[dialect] + path[len(path.partition("?")[0]) :]
    return path[max(path.find("/v1"), 0) :]
