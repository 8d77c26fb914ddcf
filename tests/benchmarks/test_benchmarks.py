"""The benchmarks measure what they say, small enough to be run with the other tests."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks import (
    controller,
    head_memory,
    proxy_calls,
    proxy_conversation,
    proxy_memory,
    step,
    weight_sync,
)
from benchmarks.contestants import LEGO, LEGO_HTTP, LITELLM
from benchmarks.load import Load
from benchmarks.processes import module, program
from benchmarks.step_work import Size
from lego_core.inference.torch_engine import TorchEngine

SMALL = ({"num_sessions": 2, "num_turns": 3},)

pytestmark = pytest.mark.slow


def test_every_program_is_measured_under_every_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_calls, "LOADS", SMALL)
    rows = proxy_calls.measure((LEGO, LEGO_HTTP))
    assert [row.name for row in rows][1:] == [LEGO.name, LEGO_HTTP.name]
    assert all(min(row.calls_per_s, row.cpu_ms, row.p50_ms, row.p99_ms) > 0 for row in rows)
    assert len(proxy_calls.report(rows).splitlines()) == 2 + len(rows)


def test_our_aim_is_told_from_the_same_run() -> None:
    def row(name: str, cpu_ms: float) -> proxy_calls.Row:
        return proxy_calls.Row(name=name, num_sessions=1, calls_per_s=1, cpu_ms=cpu_ms, p50_ms=1, p99_ms=1)

    ((said, is_reached),) = proxy_calls.verdicts([row(LEGO.name, 2.0), row(LITELLM.name, 9.0)])
    assert "4.5 times" in said
    assert not is_reached


@pytest.mark.parametrize("contestant", [LEGO, LEGO_HTTP], ids=lambda one: one.name)
def test_the_conversation_is_one_branch_of_its_turns(contestant: proxy_calls.Contestant) -> None:
    with (
        program(module("benchmarks.upstream"), under_test=False) as (_, served),
        contestant.running(served["url"]) as (_, place),
    ):
        done = proxy_calls.generate(Load(place=place, num_sessions=1, num_turns=4))
    assert done.recorded is not None
    assert (done.recorded["turns"], done.recorded["branches"]) == (4, 1)


def test_a_long_conversation_is_split_into_its_costs() -> None:
    found = proxy_conversation.measure()
    for at in (found["early"], found["late"]):
        assert at["total"] == pytest.approx(at["receive"] + at["json"] + at["rest"], rel=0.5)
    assert 140_000 < found["tokens"] < 160_000
    assert found["late"]["receive"] > found["early"]["receive"]


def test_sessions_take_memory() -> None:
    found = proxy_memory.measure(num_sessions=20)
    assert found["full"] > found["empty"] > 0


def test_memory_of_log_probabilities_is_measured_apart_from_the_head() -> None:
    found = head_memory.measure((16_384,), tokens=2048)
    assert found[16_384] > 4 * 2048 * 16_384  # once all logits: they are one chunk
    ((said, is_flat),) = head_memory.verdicts({512: found[16_384] // 2, **found})
    assert ("between 512 and 16,384" in said, is_flat) == (True, False)


def test_what_changed_is_less_than_all_weights(tmp_path: Path) -> None:
    shape = {"vocab": 512, "layers": 2, "hidden": 32, "experts": 8}
    rows = asyncio.run(weight_sync.measure(tmp_path, shape, times=1, kind=TorchEngine))
    whole, changed, broadcast = rows
    assert [row.name for row in rows] == ["all weights", "what changed", "all weights, broadcast"]
    assert 0 < changed.size < whole.size / 2
    assert 0.4 < broadcast.size / whole.size < 0.6  # in the engine's type
    assert all(row.write_s > 0 and row.take_s > 0 for row in rows)


def test_the_controllers_own_time_is_by_rollout() -> None:
    found = controller.measure(at_once=64, steps=2)
    assert found.rollouts >= 2 * 64
    assert "rollouts a second" in controller.report(found)
    ((said, _),) = controller.verdicts(found)
    assert said.startswith("at least 1,000 rollouts a second: ")


@pytest.mark.soak
def test_a_step_is_that_of_trl() -> None:
    """Else it raises; needs the package index."""
    rows = step.measure((Size(length=96, vocab=512, num_rollouts=4, rows=2, steps=1),))
    assert [row.name for row in rows] == ["Lego-RL", "TRL"]
    assert all(row.tokens_per_s > 0 and row.peak > 0 and row.share > 0 for row in rows)
    assert len(step.verdicts(rows)) == 2
