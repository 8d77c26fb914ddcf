"""Rounds of broken and hostile harnesses against a live proxy, and what must hold when each is over.

    round    a few sessions side by side, each with harnesses that share its secret and its history
    law      every sampled token is owned once, behind the context that the engine was sent, in the session
             that asked; nothing of another session is in the record; no session, task, file, descriptor or
             engine call is left

Everything is drawn from one seed.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.capture import Capture
from lego_harness.proxy.render import Renderer
from lego_harness.types import Budget, Sampling, StopReason
from tests.support.checkpoint import write_checkpoint
from tests.support.fuzz.corpus import PATHS, corpus
from tests.support.fuzz.engine import TalkativeEngine
from tests.support.fuzz.harness import Harness, Rollout
from tests.support.fuzz.raw_http import RawConnection, request

NUM_SESSIONS, NUM_HARNESSES, NUM_STEPS = 4, 3, 10
PER_ROUND = NUM_SESSIONS * NUM_HARNESSES * NUM_STEPS


@dataclass(kw_only=True)
class Seen:
    """What a run did, so that a test can see that it did something."""

    steps: Counter[str] = field(default_factory=Counter[str])
    """Requests by kind, answers by status."""
    stops: Counter[str] = field(default_factory=Counter[str])
    num_turns: int = 0
    rollouts: set[str] = field(default_factory=set[str])
    unheard: list[str] = field(default_factory=list[str])
    """Exceptions that nobody caught."""


def run_rounds(seed: int, num_requests: int) -> Seen:
    """At least that many requests; raises AssertionError with the seed at the first law that breaks."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(Path(folder), random.Random(seed), seed, num_requests))


async def _run(folder: Path, draw: random.Random, seed: int, num_requests: int) -> Seen:
    renderer = Renderer.load(write_checkpoint(folder / "model"), max_model_len=20_000)
    engine = TalkativeEngine(renderer, draw)
    (folder / "sockets").mkdir()
    proxy = CaptureProxy(engine, renderer, socket_dir=folder / "sockets")
    await proxy.start()
    seen = Seen()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.unheard.append(str(context)))
    try:
        num_files = None
        for number in range(-(-num_requests // PER_ROUND)):
            await _Round(proxy, engine, draw, seen, f"seed {seed}, round {number}").run()
            await _nothing_is_left(engine, folder / "sockets", num_files)
            num_files = num_files or _num_files()
            assert not seen.unheard, f"seed {seed}: {seen.unheard}"
    finally:
        await proxy.close()
    return seen


class _Round:
    def __init__(
        self, proxy: CaptureProxy, engine: TalkativeEngine, draw: random.Random, seen: Seen, where: str
    ) -> None:
        self._proxy, self._engine, self._draw = proxy, engine, draw
        self._seen, self._where = seen, where

    async def run(self) -> None:
        rollouts = [self._open() for _ in range(NUM_SESSIONS)]
        harnesses = [
            Harness(r, _port(r), self._draw, self._seen.steps) for r in rollouts for _ in range(NUM_HARNESSES)
        ]
        await asyncio.gather(*map(self._act, harnesses))
        for rollout in rollouts:
            self._close(rollout)
        await asyncio.gather(*(self._is_gone(rollout) for rollout in rollouts))
        for harness in harnesses:
            await harness.close()

    def _open(self) -> Rollout:
        name = f"{self._draw.getrandbits(64):016x}"
        self._seen.rollouts.add(name)
        budget = Budget(
            max_turns=self._draw.choice((3, 20, 1000)), max_tokens=self._draw.choice((300, 10_000, 10**6))
        )
        session = self._proxy.open_session(name, Sampling(max_tokens=300), budget)
        dialect, body = self._draw.choice(corpus())
        names = self._seen.rollouts
        return Rollout(session=session, name=name, dialect=dialect, body=copy.deepcopy(body), others=names)

    async def _act(self, harness: Harness) -> None:
        for _ in range(NUM_STEPS):
            try:
                await harness.step()
            except Exception as error:
                error.add_note(f"{self._where}; last sent: {harness.sent[:3000]!r}")
                raise

    def _close(self, rollout: Rollout) -> None:
        capture = rollout.session.close()
        try:
            _is_conserved(capture, rollout, self._engine)
        except AssertionError as error:
            error.add_note(f"{self._where}, rollout {rollout.name}: {capture.stop} {capture.error}")
            raise
        self._seen.stops[str(capture.stop)] += 1
        self._seen.num_turns += len(capture.turns)

    async def _is_gone(self, rollout: Rollout) -> None:
        connection = RawConnection(_port(rollout))
        answer = await connection.ask(
            request("POST", rollout.path + PATHS["chat"], json.dumps(rollout.body).encode())
        )
        await connection.close()
        assert answer is not None
        assert answer.status == 401


def _port(rollout: Rollout) -> int:
    port = urlsplit(rollout.session.endpoint.host_url).port
    assert port is not None
    return port


def _is_conserved(capture: Capture, rollout: Rollout, engine: TalkativeEngine) -> None:
    assert "the proxy failed" not in capture.error
    sampled = sum(len(turn.sampled_ids) for turn in capture.turns if not turn.masked)
    assert sum(int(branch.mask.sum()) for branch in capture.branches) == sampled
    for turn in capture.turns:
        said = (rollout.name, turn.context_ids.tobytes(), turn.sampled_ids.tobytes())
        assert said in engine.said, f"turn {turn.index} was never said to this rollout"
    assert len(rollout.replies) <= len(capture.turns)
    assert not rollout.strangers(json.dumps(capture.messages))
    if capture.stop is StopReason.FAILED_ALIGNMENT:
        assert "chat template" in capture.error


async def _nothing_is_left(engine: TalkativeEngine, folder: Path, num_files: int | None) -> None:
    left = ""
    for _ in range(10_000):
        if not (left := _left(engine, num_files)):
            break
        await asyncio.sleep(0)
    assert not left, left
    assert [path.name for path in folder.iterdir()] == ["proxy.sock"]


def _left(engine: TalkativeEngine, num_files: int | None) -> str:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    more_files = num_files is not None and _num_files() > num_files
    return f"{others}, {engine.num_running} calls" if others or engine.num_running or more_files else ""


def _num_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
