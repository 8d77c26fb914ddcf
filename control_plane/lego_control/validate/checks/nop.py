"""Doing nothing earns nothing, on a sample of the pool."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground
from lego_control.validate.tries import prove_sample

PASSES = "its tests pass before"


async def run(ground: Ground) -> str:
    proofs = await prove_sample(ground)
    free = [p.task_id for p in proofs if not p.holds and PASSES in p.reason]
    if free:
        raise Broken(
            f"{len(free)} of {len(proofs)} tasks are solved before anything was done, first {free[0]}",
            "take them out of the pool: every rollout would earn 1",
        )
    return f"{len(proofs)} untouched workspaces earn 0"
