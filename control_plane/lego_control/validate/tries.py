"""Proofs of a sample of tasks, made once for the two checks that read them."""

from __future__ import annotations

from lego_control.validate.base import Ground
from lego_harness.tasks.proof import Proof, prove


async def prove_sample(ground: Ground) -> list[Proof]:
    """A proof per task of the sample."""
    known = ground.made.get("proofs")
    if known is None:
        known = ground.made["proofs"] = await prove(ground.some_tasks(), ground.backend)
    return known
