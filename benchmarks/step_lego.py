"""Our optimizer steps on prepared work: `python -m benchmarks.step_lego WORK STEPS TOKENS THREADS`.

Prints a line of JSON: seconds of each step but the first, bytes at most, norm of the first gradient, and what matrix
products do at most here. Everything is as in a run but what TRL does not have: no routes are replayed and there is
no reference.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

from benchmarks.peak import Peak
from benchmarks.step_work import CLIP_HIGH, CLIP_LOW, LEARNING_RATE
from lego_core.config import TrainConfig
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_core.types import Sample


def main() -> None:
    work, (steps, tokens, threads) = Path(sys.argv[1]), map(int, sys.argv[2:5])
    config = TrainConfig(
        learning_rate=LEARNING_RATE,
        clip_low=CLIP_LOW,
        clip_high=CLIP_HIGH,
        kl_coef=0.0,
        routing_replay=False,
        packing=True,
        activation_checkpointing=True,
        micro_batch_tokens=tokens,
    )
    spec = TrainerSpec(model_dir=work / "model", config=config, temperature=1.0, num_threads=threads)
    trainer, samples = Trainer(spec), rollouts(work)
    peak, seconds, norms = Peak(), [], []
    for step in range(1, steps + 2):
        start = time.perf_counter()
        norms.append(trainer.train_step(samples, step).grad_norm)
        seconds.append(time.perf_counter() - start)
    found = {"seconds": seconds[1:], "peak": peak.bytes(), "norm": norms[0], "limit": limit()}
    sys.stdout.write(json.dumps(found) + "\n")


def rollouts(work: Path) -> list[Sample]:
    with np.load(work / "rollouts.npz") as stored:
        columns = [stored[name] for name in ("ids", "lengths", "prompts", "advantages")]
    return [
        Sample(
            rollout_id=f"r{i}",
            ids=ids[:length].astype(np.int32),
            mask=np.arange(length) >= prompt,
            rollout_logprobs=np.zeros(length, np.float32),
            advantage=float(advantage),
            routes=None,
        )
        for i, (ids, length, prompt, advantage) in enumerate(zip(*columns, strict=True))
    ]


def limit(size: int = 2048, times: int = 5) -> float:
    """Floating-point operations a second of a large matrix product."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    seconds: list[float] = []
    for _ in range(times):
        start = time.perf_counter()
        torch.mm(a, b)
        seconds.append(time.perf_counter() - start)
    return 2.0 * size**3 / min(seconds)


if __name__ == "__main__":
    main()
