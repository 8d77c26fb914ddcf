"""Run directories and records for tests, made through the real writer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lego_core.config import Recipe
from lego_core.recipe_file import parse_recipe
from lego_core.store import RunWriter
from lego_core.types import HeldoutRecord, StepRecord
from lego_harness.types import Branch, Grade, StopReason, Trajectory, Turn


def recipe(**sections: dict[str, Any]) -> Recipe:
    """A recipe with the given sections over the defaults."""
    return parse_recipe({"run": {"name": "example"}, "train": {"steps": 3}, **sections})


def trajectory(trajectory_id: str = "s00001.g00.r0", *, sampled: int = 5, **changes: Any) -> Trajectory:
    """A graded rollout of one turn and one branch: a context of 4 tokens and `sampled` sampled ones."""
    length = 4 + sampled
    ids = np.arange(length, dtype=np.int32)
    logprobs = np.linspace(-3, 0, sampled, dtype=np.float32)
    routes = np.arange((length - 1) * 4, dtype=np.int16).reshape(length - 1, 2, 2)
    turn = Turn(
        index=0,
        context_ids=ids[:4],
        sampled_ids=ids[4:],
        logprobs=logprobs,
        routes_from=0,
        routes=routes,
        policy_version=0,
        finish_reason="stop",
        fingerprint="0" * 64,
        started_s=0.0,
        ended_s=0.5,
    )
    branch = Branch(
        ids=ids,
        mask=ids >= 4,
        logprobs=np.concatenate([np.zeros(4, np.float32), logprobs]),
        versions=np.where(ids >= 4, 0, -1).astype(np.int32),
        routes=np.concatenate([routes, np.full((1, 2, 2), -1, np.int16)]),
    )
    made = Trajectory(
        id=trajectory_id,
        task_id="ops-0001",
        epoch=0,
        harness="mini-swe-agent",
        sandbox="bubblewrap",
        stop_reason=StopReason.COMPLETED,
        error="",
        grade=Grade(reward=1.0, tests={"test_it": "passed"}, duration_s=0.1),
        turns=(turn,),
        branches=(branch,),
        messages=({"role": "user", "content": "repair é \ud800"},),
        patch="--- a\n+++ b\n",
        timings_s={"agent": 0.5},
    )
    return replace(made, **changes)


def step(number: int = 1, **changes: Any) -> StepRecord:
    """A step of 8 groups whose reward rises with its number."""
    record = StepRecord(
        step=number,
        policy_version=number,
        reward_mean=0.1 * number,
        solved=number,
        rollouts=64,
        groups=8,
        zero_variance_groups=1,
        pearson_r=0.99999,
        mean_abs_dlogp=1e-6,
        k3=1e-12,
        routing_coverage=1.0,
        sampled=1000,
        trained=900,
        masked={"zero_variance": 100},
        dropped={"timeout": 1},
        tokens_per_s=512.5,
        seconds={"rollout": 2.0, "train": 1.0, "total": 3.5},
        loss=-0.1,
        grad_norm=0.3,
        clip_fraction=0.0,
        kl_loss=0.0,
        entropy=0.7,
        expert_overlap=1.0,
        top1_agreement=1.0,
        trained_rollouts=(f"s{number:05d}.g00.r0",),
        lag={"0": 1000},
        trainer_idle=0.06,
        engine_idle=0.8,
    )
    return replace(record, **changes)


def heldout(number: int = 0, solve_rate: float = 0.25) -> HeldoutRecord:
    """An evaluation of 64 tasks."""
    return HeldoutRecord(
        step=number,
        policy_version=number,
        solve_rate=solve_rate,
        n=64,
        failed={},
        temperature=0.7,
        seconds=10.0,
    )


def write_run(runs_dir: Path, *, steps: Iterable[int] = (1, 2, 3), status: str = "finished") -> Path:
    """A closed run with two evaluations, one trajectory a step and the given steps; its directory."""
    writer = RunWriter.create(runs_dir, recipe())
    writer.append_heldout(heldout(0, 0.25))
    for number in steps:
        writer.event("stage", stage="rollout", step=number)
        writer.append_trajectory(trajectory(f"s{number:05d}.g00.r0"), step=number)
        writer.append_step(step(number))
    writer.append_heldout(heldout(3, 0.75))
    writer.close(status)
    return writer.layout.root
