"""A plan is arithmetic one can check by hand, and a simulation of the controller that trains for real."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_control.cli import main
from lego_core.model_config import read_config
from lego_core.simulation.capacity import GPUS, QWEN35_35B_A3B, model_size, plan_capacity
from lego_core.simulation.schedule import Schedule, simulate
from lego_core.simulation.stages import TABLE_4, rollout_durations
from lego_harness.errors import UsageError
from tests.support.tiny_model import build_random_model

RECIPE = """
[run]
name = "plan"
[rollout]
groups_per_step = 8
group_size = 4
"""


@given(st.sampled_from(sorted(TABLE_4)), st.floats(0.001, 0.998), st.floats(0.0001, 0.001))
def test_a_stage_has_the_quantiles_it_was_given_and_rises_between_them(
    name: str, rank: float, more: float
) -> None:
    stage = TABLE_4[name]
    for quantile, seconds in ((0.5, stage.p50), (0.9, stage.p90), (0.99, stage.p99)):
        assert stage.duration_s(quantile) == pytest.approx(seconds)
    assert stage.duration_s(rank) < stage.duration_s(rank + more)


@pytest.mark.parametrize(
    ("name", "mean_s"),
    [("sandbox set-up", 21.6), ("agent set-up", 4.2), ("agent execution", 840.5), ("verification", 35.9)],
)
def test_a_stage_given_by_its_quantiles_has_the_papers_mean(name: str, mean_s: float) -> None:
    """Nothing was fitted to it, so it tells whether the shape between and beyond the quantiles is right."""
    ranks = [(i + 0.5) / 20_000 for i in range(20_000)]
    assert fmean(TABLE_4[name].duration_s(rank) for rank in ranks) == pytest.approx(mean_s, rel=0.06)


def test_simulated_rollouts_take_as_long_as_the_papers() -> None:
    """Table 4: mean 920 s, median 770 s, 90 % within 1,743 s, 99 % within 3,189 s."""
    durations = rollout_durations(0, tuple(TABLE_4.values()))
    outcome = simulate(
        Schedule(
            max_staleness=0,
            slots=10_000,
            groups_per_step=500,
            group_size=8,
            steps=1,
            duration_s=durations,
            train_s=1.0,
        )
    )
    seconds = sorted(kept.seconds for kept in outcome.rollouts.values() if kept.step == 1)
    assert len(seconds) == 4000
    assert sum(seconds) / 4000 == pytest.approx(920, rel=0.05)
    assert seconds[2000] == pytest.approx(770, rel=0.05)
    assert seconds[3600] == pytest.approx(1743, rel=0.05)
    assert seconds[3960] == pytest.approx(3189, rel=0.1)


def test_the_papers_model_has_the_size_of_its_name() -> None:
    size = model_size(QWEN35_35B_A3B)
    assert size.weights / 1e9 == pytest.approx(35, rel=0.05)
    embedding = QWEN35_35B_A3B["vocab_size"] * QWEN35_35B_A3B["hidden_size"]  # a name counts it, too
    assert (size.active + embedding) / 1e9 == pytest.approx(3, rel=0.05)
    assert size.kv_bytes_per_token == 10 * 2 * 2 * 256 * 2


def test_a_counted_model_has_as_many_weights_as_the_real_one(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    folder = build_random_model(tmp_path / "m", hidden=256, vocab=2048)
    tensors = load_file(folder / "model.safetensors")
    real = sum(t.numel() for t in tensors.values() if t.dim() > 1)
    assert model_size(read_config(folder)).weights == pytest.approx(real, rel=0.01)


def test_a_model_that_does_not_fit_is_refused_with_the_number_that_would() -> None:
    size = model_size(QWEN35_35B_A3B)
    with pytest.raises(UsageError, match=r"8 GPUs of 141 GB: training needs 8 .* expected at least 9"):
        plan_capacity(size, GPUS["h200"], 8, tokens_per_step=1e6, context=1e4)


def test_an_engine_is_planned_on_one_gpu_as_it_runs() -> None:
    size = model_size(QWEN35_35B_A3B)
    with pytest.raises(UsageError, match=r"68 GB of bfloat16 weights, and one of 80 GB has room for 58"):
        plan_capacity(size, GPUS["h100"], 64, tokens_per_step=1e6, context=1e4)
    with pytest.raises(UsageError, match=r"137 GB of float32 weights, and one of 141 GB has room for 102"):
        plan_capacity(size, GPUS["h200"], 64, tokens_per_step=1e6, context=1e4, engine_dtype="float32")
    planned = plan_capacity(size, GPUS["h200"], 17, tokens_per_step=1e6, context=1e4)
    assert (planned.trainer_gpus, planned.engine_gpus) == (8, 9)


def test_a_step_takes_as_long_as_float32_without_tensor_cores() -> None:
    """An H200's data sheet says 67 TFLOP/s; ten operations for each active weight and token, 35 % of the peak."""
    size = model_size(QWEN35_35B_A3B)
    planned = plan_capacity(size, GPUS["h200"], 16, tokens_per_step=1e6, context=1e4)
    assert planned.train_s == pytest.approx(10 * size.active * 1e6 / (8 * 67e12 * 0.35))


def test_lego_plan_compares_four_schedules_for_people_and_programs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "r.toml").write_text(RECIPE)
    asked = ["plan", str(tmp_path / "r.toml"), "--gpus", "16", "--concurrent", "64"]
    assert main([*asked, "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [row["max_staleness"] for row in plan["rows"]] == [0, 1, 2, 4]
    step_s = [row["step_s"] for row in plan["rows"]]
    assert step_s == sorted(step_s, reverse=True), "overlap never slows a step down"
    assert step_s[1] < 0.7 * step_s[0]
    assert plan["rows"][0]["mean_lag"] == 0
    assert all(row["mean_lag"] <= row["max_staleness"] for row in plan["rows"])
    assert main(asked) == 0
    shown = capsys.readouterr().out
    assert "Qwen3.5-35B-A3B: 3" in shown
    assert "trainer idle" in shown


def test_lego_plan_says_how_many_gpus_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "r.toml").write_text(RECIPE)
    assert main(["plan", str(tmp_path / "r.toml"), "--gpus", "2"]) == 2
    assert "expected at least" in capsys.readouterr().err
