"""A harness does not notice that the engine was away."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from lego_harness.errors import EngineUnavailable
from lego_harness.proxy.patience import PatientEngine
from lego_harness.proxy.render import Renderer
from lego_harness.types import GenerateRequest, Generation, StopReason
from tests.support.conversation import Talk
from tests.support.scripted_engine import ScriptedEngine, say

Begin = Callable[..., Awaitable[Talk]]
LS = say("Look.", ("bash", {"command": "ls"}))
AWAY = EngineUnavailable("engine: restarting")


class Clock:
    """Time passes by waiting only."""

    def __init__(self) -> None:
        self.now, self.waits = 0.0, list[float]()

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def patient(engine: ScriptedEngine, clock: Clock, patience_s: float = 60) -> PatientEngine:
    waiting = PatientEngine(engine, patience_s=patience_s, clock=lambda: clock.now, sleep=clock.sleep)
    waiting.renderer = engine.renderer  # type: ignore[attr-defined]
    return waiting


async def test_a_restart_a_pause_and_an_abort_change_nothing_in_the_transcript(
    talk: Begin, renderer: Renderer
) -> None:
    def aborted(request: GenerateRequest) -> Generation:
        whole = engine.generation(request, renderer.encode_assistant(LS))
        return replace(whole, finish_reason="abort")

    engine = ScriptedEngine(renderer, [AWAY, AWAY, aborted, LS])
    clock = Clock()
    t = await talk(patient(engine, clock))
    await t.turn()
    capture = t.session.close()
    assert (capture.stop, len(capture.turns)) == (None, 1)
    assert capture.turns[0].sampled_ids.tolist() == renderer.encode_assistant(LS)
    assert clock.waits == [0.25, 0.5, 1.0]
    assert len({request.request_id for request in engine.requests}) == 4
    assert len({tuple(request.context_ids) for request in engine.requests}) == 1
    assert len({request.sampling.seed for request in engine.requests}) == 1


async def test_patience_ends_and_the_rollout_with_it(talk: Begin, renderer: Renderer) -> None:
    engine = ScriptedEngine(renderer, [AWAY] * 20)
    clock = Clock()
    t = await talk(patient(engine, clock, patience_s=20))
    assert (await t.post())[0] == 400
    capture = t.session.close()
    assert (capture.stop, capture.error) == (StopReason.FAILED_ENGINE, "engine: restarting")
    assert clock.now <= 20
