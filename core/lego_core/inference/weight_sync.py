"""Bringing new weights to a running vLLM: its own update protocol, in order.

    pause (calls in flight end as they are) → start → update → finish → reset prefix cache → resume

Calls are cut rather than kept: the new weights would prefill a kept call again, and their routing rows
would then stand next to log-probabilities of the old ones.

Invariant: when `push_weights` returns, no cached key, value or route was computed by older
weights. When it raises, the engine may hold a mixture: the caller must not use it any more.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from lego_core.weight_broadcast import Meeting
from lego_harness.errors import EngineError

BACKEND = "lego"
"""Name under which `vllm_worker` registers its weight-transfer backend."""


async def open_transfer(llm: Any) -> None:
    """Once per engine, before the first `push_weights`."""
    from vllm.distributed.weight_transfer.base import WeightTransferInitRequest

    await llm.init_weight_transfer_engine(WeightTransferInitRequest(init_info={}))


async def push_weights(llm: Any, weights: Path | Meeting, version: int) -> None:
    """Load `weights` into `llm`, from safetensors in checkpoint names or as the trainer broadcasts them, and stamp it
    with `version`."""
    from vllm.distributed.weight_transfer.base import WeightTransferUpdateRequest

    await llm.pause_generation(mode="abort")
    await llm.start_weight_update()
    await llm.update_weights(WeightTransferUpdateRequest(update_info=_told(weights)))
    await llm.finish_weight_update(str(version))
    if not await llm.reset_prefix_cache():
        raise EngineError(
            f"weights {weights}: the engine kept its prefix cache after the update to version {version}"
        )
    await llm.resume_generation()


def _told(weights: Path | Meeting) -> dict[str, Any]:
    """What `vllm_worker` reads of it."""
    return {"meeting": asdict(weights)} if isinstance(weights, Meeting) else {"path": str(weights)}
