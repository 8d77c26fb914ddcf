"""The paper's Table 7 for any trainer and any samples of an engine: replay disabled, misaligned, aligned.

Three steps that change nothing, on the same weights and tokens. Aligned must agree best; misaligned
shows that the table would have noticed. Decides nothing: whoever validates a recipe sets the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lego_core.training.trainer import Trainer, TrainerSpec
from lego_core.types import Sample, TrainMetrics

ROWS = ("disabled", "misaligned", "aligned")


def routing_table(spec: TrainerSpec, samples: Sequence[Sample]) -> dict[str, TrainMetrics]:
    """`ROWS` → what a step measures: Pearson r, |Δp|, expert overlap, top-1 agreement, k3.

    `samples` carry the engine's routes. Raises TrainingError for routes that are not even plausible.
    """
    still = {"learning_rate": 0.0, "kl_coef": 0.0, "updates_per_batch": 1, "routing_replay": True}
    trainer = Trainer(replace(spec, config=spec.config.model_copy(update=still)))
    variants = {
        "disabled": [replace(s, routes=None) for s in samples],
        "misaligned": [misaligned(s) for s in samples],
        "aligned": samples,
    }
    return {row: trainer.train_step(variants[row]) for row in ROWS}


def misaligned(sample: Sample) -> Sample:
    """Every row one position late: well-shaped and wrong."""
    if sample.routes is None:
        return sample
    routes = np.full_like(sample.routes, -1)
    routes[1:-1] = sample.routes[:-2]
    return replace(sample, routes=routes)


def markdown(table: dict[str, TrainMetrics]) -> str:
    """The table as the paper prints it, with the log-probabilities' own correlation and k3 beside it."""
    lines = [
        "| configuration | Pearson r | r of logp | mean abs. Δp | k3 | expert overlap | top-1 agreement |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row, m in table.items():
        numbers = (m.pearson_r, m.pearson_r_logp, m.mean_abs_dp, m.k3, m.expert_overlap, m.top1_agreement)
        shown = ["–" if n is None else f"{n:.4g}" if n < 0.01 else f"{n:.4f}" for n in numbers]
        lines.append(f"| {row} | {' | '.join(shown)} |")
    return "\n".join(lines)
