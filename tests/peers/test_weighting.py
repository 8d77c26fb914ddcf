"""One weight and one advantage per rollout, on log-probabilities of one distribution."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from lego_core.batching.packing import pack
from lego_core.inference.torch_engine import processed_logprobs
from lego_core.training.logprobs import score_tokens, to_device
from lego_core.types import Sample
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.render import Renderer
from lego_harness.types import Sampling
from tests.support.fan_out import WAYS, fan_out, replies
from tests.support.graded import batch, group, rollout, step
from tests.support.scripted_engine import ScriptedEngine

Serve = Callable[[ScriptedEngine], Awaitable[CaptureProxy]]


async def opposed(serve: Serve, renderer: Renderer, way: str) -> list[Sample]:
    """A solved rollout of three rows and a failed one of one row: advantages ½ and −½."""
    proxy = await serve(ScriptedEngine(renderer, [*replies(3), *replies(1)], has_routes=False))
    split, whole = await fan_out(proxy, "a", 3, way), await fan_out(proxy, "b", 1, way)
    return list(batch(group(rollout("a", split, 1.0), rollout("b", whole, 0.0))).samples)


@pytest.mark.parametrize("way", WAYS)
async def test_a_rollout_of_three_rows_weighs_as_much_as_one_of_one_row(
    way: str, serve: Serve, renderer: Renderer, model_dir: Path
) -> None:
    """verl-project/uni-agent#185, verl-project/verl#7580: a session of three chains weighed 3×."""
    samples = await opposed(serve, renderer, way)
    assert len(samples) == 4
    # ratio 1: ½ (−½ + ½). By rows it would be ¼ (−3/2 + ½) = −¼, by tokens lower still.
    assert step(model_dir, samples).loss == pytest.approx(0, abs=1e-12)
    assert step(model_dir, [s for s in samples if s.rollout_id == "a"]).loss == pytest.approx(-0.5, rel=1e-12)


@pytest.mark.parametrize("way", WAYS)
async def test_every_turn_of_a_rollout_learns_with_its_one_advantage(
    way: str, serve: Serve, renderer: Renderer
) -> None:
    """NovaSky-AI/SkyRL#1507: broadcast with the last step's mask, the advantage of all others was 0."""
    samples = await opposed(serve, renderer, way)
    batches, num_rollouts = pack(samples, max_tokens=200)
    rollouts = np.concatenate([b.rollout for b in batches])
    of_tokens = np.concatenate([b.advantage for b in batches])
    assert num_rollouts == 2
    assert len(of_tokens) == sum(int(s.mask.sum()) for s in samples)
    assert set(of_tokens[rollouts == 0]) == {0.5}
    assert set(of_tokens[rollouts == 1]) == {-0.5}


LOGITS = [2.0, 1.0, 0.0]
AT_0_6 = [-0.2025733, -1.8692399, -3.5359066]
"""(2, 1, 0)/0.6 less ln(e^3.3̄ + e^1.6̄ + 1)"""


def toy_policy() -> Any:
    """Predicts `LOGITS` everywhere."""
    logits = torch.tensor(LOGITS, dtype=torch.float64)

    def body(input_ids: torch.Tensor, use_cache: bool) -> Any:
        return SimpleNamespace(last_hidden_state=logits.expand(*input_ids.shape, 3))

    return SimpleNamespace(model=body, lm_head=lambda hidden: hidden, config=SimpleNamespace(vocab_size=3))


def test_engine_and_trainer_score_the_distribution_that_was_sampled_from() -> None:
    """verl-project/verl#4162, huggingface/trl#4159, vllm-project/vllm#42259: raw against processed at T = 0.6."""
    sampled = processed_logprobs(torch.tensor(LOGITS), Sampling(temperature=0.6))
    assert sampled.tolist() == pytest.approx(AT_0_6, abs=1e-6)
    sample = Sample(
        rollout_id="a",
        ids=np.array([0, 0, 1, 2], np.int32),
        mask=np.array([False, True, True, True]),
        rollout_logprobs=np.zeros(4, np.float32),
        advantage=1.0,
        routes=None,
    )
    (packed,), _ = pack([sample], max_tokens=10)
    on_device = to_device(packed, torch.device("cpu"), torch.float64)
    assert score_tokens(toy_policy(), on_device, temperature=0.6).logp.tolist() == pytest.approx(
        AT_0_6, abs=1e-6
    )
    assert score_tokens(toy_policy(), on_device, temperature=1.0).logp.tolist() != pytest.approx(
        AT_0_6, abs=0.1
    )
