"""Trainer against engine, and against its own checkpoint. Each proof has a trainer of its own.

agreement    the trainer recomputes the engine's log-probabilities, routes replayed     (paper, Table 3)
routes       replayed aligned agrees best; shifted by one position clearly worse         (paper, Table 7)
checkpoint   what was saved loads to exactly the same weights, optimizer included
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from lego_core.config import TrainConfig
from lego_core.proofs.told import Told
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_core.types import Sample, TrainMetrics

MIN_PEARSON = 0.995
MAX_K3 = 0.01
MISALIGNED = 3.0
"""By this factor routes of the neighbouring position must move the log-probabilities further."""


def measure(spec: TrainerSpec, samples: Sequence[Sample], *, replay: bool = True) -> TrainMetrics:
    """What a step that changes nothing measures."""
    config = spec.config.model_copy(
        update={"learning_rate": 0.0, "kl_coef": 0.0, "routing_replay": replay, "updates_per_batch": 1}
    )
    return Trainer(replace(spec, config=config)).train_step(samples)


def prove_agreement(found: TrainMetrics) -> Told:
    """Pearson's r and k3 over sampled tokens."""
    r = found.pearson_r if found.pearson_r is not None else 0.0
    k3 = _measured(found.k3)
    evidence = f"r {r:.5f}, mean |Δlogp| {_measured(found.mean_abs_dlogp):.2g}, k3 {k3:.2g}"
    if r >= MIN_PEARSON and k3 <= MAX_K3:
        return Told(name="agreement", status="passed", evidence=evidence)
    return Told(
        name="agreement",
        status="failed",
        evidence=f"{evidence}; expected r of at least {MIN_PEARSON} and k3 of at most {MAX_K3}",
        remedy="same weights, same temperature, same precision: look at engine.dtype and rollout.temperature",
    )


def prove_routes(spec: TrainerSpec, samples: Sequence[Sample], aligned: TrainMetrics) -> Told:
    """The Table 7 probe."""
    if not spec.config.routing_replay:
        return Told(name="routes", status="skipped", evidence="train.routing_replay is off")
    if any(sample.routes is None for sample in samples):
        return Told(name="routes", status="skipped", evidence="the model has no experts")
    off, shifted = measure(spec, samples, replay=False), measure(spec, [_shifted(s) for s in samples])
    told = ", ".join(
        f"{name} r {m.pearson_r or 0:.4f} |Δlogp| {_measured(m.mean_abs_dlogp):.2g}"
        for name, m in (("aligned", aligned), ("off", off), ("misaligned", shifted))
    )
    gap = _measured(aligned.mean_abs_dlogp)
    worse = _measured(shifted.mean_abs_dlogp) >= MISALIGNED * max(gap, 1e-6)
    better = gap <= 1.1 * _measured(off.mean_abs_dlogp) + 1e-6 < math.inf
    if worse and better and aligned.routing_coverage >= 0.99:
        return Told(name="routes", status="passed", evidence=told)
    return Told(
        name="routes",
        status="failed",
        evidence=f"{told}, coverage {aligned.routing_coverage:.2f}: aligned routes are not the best",
        remedy="do not replay these routes: train.routing_replay = false, or the pinned engine",
    )


def _measured(distance: float | None) -> float:
    """Infinite if no token was comparable: what was not measured proves nothing."""
    return math.inf if distance is None else distance


def _shifted(sample: Sample) -> Sample:
    assert sample.routes is not None
    routes = np.full_like(sample.routes, -1)
    routes[1:-1] = sample.routes[:-2]
    return replace(sample, routes=routes)


def prove_checkpoint(spec: TrainerSpec, samples: Sequence[Sample], folder: Path) -> Told:
    """One real step, saved, loaded by another trainer, one more step in both."""
    config: TrainConfig = spec.config.model_copy(
        update={"learning_rate": max(spec.config.learning_rate, 1e-6)}
    )
    first, second = Trainer(replace(spec, config=config)), Trainer(replace(spec, config=config))
    first.train_step(samples)
    first.save_checkpoint(folder / "saved", {"proof": 1})
    state = second.load_checkpoint(folder / "saved")
    before = _weights(first, folder / "a"), _weights(second, folder / "b")
    losses = first.train_step(samples, 2).loss, second.train_step(samples, 2).loss
    after = _weights(first, folder / "c"), _weights(second, folder / "d")
    if state == {"proof": 1} and before[0] == before[1] and after[0] == after[1] and losses[0] == losses[1]:
        return Told(
            name="checkpoint", status="passed", evidence="saved, loaded and gone on with, bit for bit"
        )
    where = "loading" if before[0] != before[1] else "the next step"
    return Told(
        name="checkpoint",
        status="failed",
        evidence=f"a loaded checkpoint differs after {where}",
        remedy="a run could not be resumed exactly: look at the disk, and at what the model leaves unsaved",
    )


def _weights(trainer: Trainer, path: Path) -> bytes:
    trainer.export(path)
    return path.read_bytes()
