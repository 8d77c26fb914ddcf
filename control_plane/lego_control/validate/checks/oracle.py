"""The reference solution earns everything, on a sample of the pool."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground
from lego_control.validate.checks.nop import PASSES
from lego_control.validate.tries import prove_sample


async def run(ground: Ground) -> str:
    proofs = await prove_sample(ground)
    bad = [p for p in proofs if not p.holds and PASSES not in p.reason]
    if bad:
        raise Broken(
            f"{len(bad)} of {len(proofs)} reference solutions do not earn 1, first {bad[0].task_id}: {bad[0].reason}",
            "repair their tests or solutions, or take them out of the pool",
        )
    return f"{len(proofs)} reference solutions earn 1"
