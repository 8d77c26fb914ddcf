"""What the time of a call is, and what is done with one that its caller gave up: in virtual time.

vLLM itself is scripted here, since it cannot be made to be late; `test_engine.py` has the real one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lego_core.config import EngineConfig
from lego_core.inference import engine as engine_module
from lego_core.inference.engine import VllmEngine
from lego_core.inference.ray_engine import RayEngine
from lego_core.inference.spec import EngineSpec
from lego_core.simulation import virtual_time
from lego_harness.errors import EngineError
from tests.support.engine_samples import request

TIMEOUT_S = 120.0


class _Stream:
    """One token, `samples_s` after it began, or none if it is ended before."""

    def __init__(self, name: str, samples_s: float) -> None:
        self.request_id = name
        self._output = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(samples_s, self.end, "length", (5,))

    def end(self, reason: str, ids: tuple[int, ...] = ()) -> None:
        if not self._output.done():
            logprobs = [{i: SimpleNamespace(logprob=-0.5)} for i in ids]
            one = SimpleNamespace(finish_reason=reason, token_ids=ids, logprobs=logprobs)
            self._output.set_result(SimpleNamespace(outputs=[one]))

    def get_nowait(self) -> Any:
        return self._output.result() if self._output.done() else None

    async def get(self) -> Any:
        return await asyncio.shield(self._output)

    def close(self) -> None:
        pass


class _ScriptedLlm:
    """Knows a request `accepts_s` after it was added."""

    errored = False

    def __init__(self, *, accepts_s: float = 0.0, samples_s: float = 10.0) -> None:
        self._accepts_s, self._samples_s = accepts_s, samples_s
        self.streams: dict[str, _Stream] = {}
        self.aborted: list[str] = []

    async def add_request(self, name: str, prompt: Any, params: Any) -> _Stream:
        await asyncio.sleep(self._accepts_s)
        self.streams[name] = _Stream(name, self._samples_s)
        return self.streams[name]

    async def abort(self, name: str, internal: bool = False) -> None:
        if name in self.streams:
            self.aborted.append(name)
            self.streams[name].end("abort")


def seconds(main: Coroutine[Any, Any, None]) -> float:
    """What it takes."""

    async def timed() -> float:
        await main
        return asyncio.get_running_loop().time()

    return virtual_time.run(timed())


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> VllmEngine:
    """Its publishes take 100 s."""

    async def push(*_: Any) -> None:
        await asyncio.sleep(100)

    async def inline(work: Any, *arguments: Any) -> Any:
        return work(*arguments)

    monkeypatch.setattr(engine_module, "sampling_params", lambda *_: None)
    monkeypatch.setattr(engine_module, "push_weights", push)
    monkeypatch.setattr(asyncio, "to_thread", inline)
    config = EngineConfig(timeout_s=TIMEOUT_S)
    return VllmEngine(EngineSpec(model_dir=Path(), config=config, routes=False))


def test_what_a_call_waits_for_new_weights_is_not_its_time(engine: VllmEngine) -> None:
    engine._llm = _ScriptedLlm(samples_s=100)

    async def main() -> None:
        publish = asyncio.create_task(engine.publish(Path(), 1))
        await asyncio.sleep(1)
        reply = await engine.generate(request("beside"))
        assert (reply.policy_version, reply.ids.tolist()) == (1, [5])
        await publish

    assert seconds(main()) == 200 > TIMEOUT_S


def test_sampling_that_takes_longer_than_the_limit_is_an_error_and_is_freed(engine: VllmEngine) -> None:
    engine._llm = llm = _ScriptedLlm(samples_s=1000)

    async def main() -> None:
        with pytest.raises(
            EngineError, match=r"call slow got no answer from vLLM within engine.timeout_s = 120 s"
        ):
            await engine.generate(request("slow"))

    assert seconds(main()) == TIMEOUT_S
    assert llm.aborted == ["slow"]


def test_a_call_given_up_while_vllm_takes_it_in_is_freed_as_soon_as_it_is_known(engine: VllmEngine) -> None:
    engine._llm = llm = _ScriptedLlm(accepts_s=2)

    async def main() -> None:
        call = asyncio.create_task(engine.generate(request("gone")))
        await asyncio.sleep(1)
        await engine.abort("gone")
        with pytest.raises(EngineError, match="call gone was aborted before its first token"):
            await call

    assert seconds(main()) == 2
    assert llm.aborted == ["gone"]


async def test_an_engine_that_hangs_is_waited_for_through_the_publishes_a_call_may_meet() -> None:
    """Two publishes and three segments."""
    said: list[str] = []

    def never(_: Any) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().create_future()

    actor = SimpleNamespace(generate=SimpleNamespace(remote=never), abort=SimpleNamespace(remote=said.append))
    hung = RayEngine(actor=actor, timeout_s=0.01, folder=Path(), max_cuts=2)
    with pytest.raises(EngineError, match=r"no answer from the engine within 5 engine\.timeout_s = 0\.05 s"):
        await hung.generate(request("hung"))
    assert said == ["hung"]
