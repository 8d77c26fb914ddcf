"""A vLLM server as an engine: what is asked of it, what it may answer, and what each fault becomes."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import Any

import numpy as np
import pytest

from lego_harness.errors import EngineError, EngineUnavailable, UsageError
from lego_harness.proxy.upstream_http import HttpEngine
from lego_harness.types import GenerateRequest, Sampling
from tests.support.pretend_vllm import PretendVllm, Reply, generation, served

REQUEST = GenerateRequest(
    request_id="r.a0.t0",
    context_ids=np.array([3, 1, 4], np.int32),
    sampling=Sampling(temperature=0.7, top_p=0.9, top_k=-1, max_tokens=5, seed=11),
    stop_ids=(2, 0),
    routes_from=1,
)


def array(rows: Any) -> str:
    """As vLLM sends routing rows."""
    file = io.BytesIO()
    np.save(file, rows)
    return base64.b64encode(file.getvalue()).decode()


async def test_ids_go_in_and_come_out_with_their_log_probabilities_and_routes() -> None:
    rows = np.arange(16, dtype=np.uint8).reshape(4, 2, 2)
    pretend = PretendVllm(lambda call: generation([5, 6, 2], routed_experts=array(rows)))
    async with served(pretend) as url, HttpEngine(f"{url}/") as engine:
        assert await engine.look() == 8192
        made = await engine.generate(REQUEST)
    assert made.ids.tolist() == [5, 6, 2]
    assert made.logprobs.tolist() == [-0.5] * 3
    assert np.array_equal(made.routes, rows)
    assert (made.finish_reason, made.policy_version) == ("stop", 0)
    (call,) = pretend.calls
    assert (call["model"], call["token_ids"], call["request_id"]) == ("tiny", [3, 1, 4], "r.a0.t0")
    assert call["sampling_params"] == {
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 0,
        "max_tokens": 5,
        "seed": 11,
        "stop_token_ids": [2, 0],
        "ignore_eos": True,
        "logprobs": 0,
        "routed_experts_prompt_start": 1,
    }


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ((503, "paused"), EngineUnavailable),
        ((429, "busy"), EngineUnavailable),
        ((500, "restarting"), EngineUnavailable),
        ((400, "too long"), EngineError),
        ((200, "no json"), EngineError),
        ((200, "{}"), EngineError),
        (generation([1]) | {"logprobs": None}, EngineError),
        (generation([-1]), EngineError),
        (generation([2**40]), EngineError),
        (generation([1], routed_experts="no base64!"), EngineError),
        (generation([1], routed_experts=base64.b64encode(b"no array").decode()), EngineError),
    ],
)
async def test_a_fault_is_named_and_only_what_may_pass_is_worth_another_call(
    reply: Reply, error: type[EngineError]
) -> None:
    async with served(PretendVllm(lambda call: reply)) as url, HttpEngine(url) as engine:
        await engine.look()
        with pytest.raises(EngineError) as raised:
            await engine.generate(REQUEST)
    assert raised.type is error


async def test_a_server_that_is_gone_may_come_back() -> None:
    async with served(PretendVllm(lambda call: generation([1]))) as url:
        engine = HttpEngine(url)
    async with engine:
        with pytest.raises(EngineUnavailable, match="does not answer"):
            await engine.generate(REQUEST)


async def test_a_cancelled_call_frees_the_server() -> None:
    pretend = PretendVllm(lambda call: generation([1]))
    pretend.gate = asyncio.Event()
    async with served(pretend) as url, HttpEngine(url) as engine:
        call = asyncio.create_task(engine.generate(REQUEST))
        await pretend.arrived.wait()
        call.cancel()
        await asyncio.wait({call})
        await asyncio.wait_for(pretend.dropped.wait(), 30)
    assert call.cancelled()


async def test_what_is_no_such_server_is_told_with_what_to_do() -> None:
    pretend = PretendVllm(lambda call: generation([1]))
    async with served(pretend, has_generate=False) as url:
        async with HttpEngine(url) as engine:
            with pytest.raises(UsageError, match=r"not served.*--enable-scale-out"):
                await engine.look()
        async with HttpEngine(f"{url}/v1") as engine:
            with pytest.raises(UsageError, match="without /v1"):
                await engine.look()
    for address in (url, "http://127.0.0.1:1", "nonsense", "http://[", "ftp://127.0.0.1"):
        async with HttpEngine(address) as engine:
            with pytest.raises(UsageError, match="no server answers there"):
                await engine.look()
