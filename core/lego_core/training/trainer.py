"""The trainer: samples in, optimizer updates, measured against the rollout.

    samples ─pack─▶ micro-batches ─▶ passes with gradient (update.py) ─▶ AdamW
                                        └── agreement, entropy, routing (measure.py)

Old log-probabilities are recomputed with the trainer's weights at the start of the step, routes replayed. They
are not the engine's unless the recipe says so, because rounding alone would clip. In the first update of a step
the update computes them anyway: no extra pass is needed and the ratio is 1. If an objective's ratio is that of
the whole rollout and not 1, a pass without gradient measures it first.

Invariant: a step that raises TrainingError has not touched the weights with the update it refused.
Owns no process and no publishing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributed import Store  # pyright: ignore[reportPrivateImportUsage] (documented, not in __all__)

from lego_core.algorithms.choose import make_objective
from lego_core.algorithms.gspo import rollout_log_ratios
from lego_core.batching.packing import pack
from lego_core.config import TrainConfig
from lego_core.errors import TrainingError
from lego_core.training.checkpoint import Writing, begin_checkpoint, load_checkpoint
from lego_core.training.logprobs import DeviceBatch, to_device
from lego_core.training.measure import step_metrics
from lego_core.training.optimizer import clip_gradients, learning_rate, make_optimizer, set_learning_rate
from lego_core.training.ranks import ALONE, Ranks, pick_device
from lego_core.training.resharding import whole_weights
from lego_core.training.routing_replay import RouterAgreement, check_routes, coverage
from lego_core.training.scorer import Scorer, load_scorer
from lego_core.training.update import Facts, Pass, gradients
from lego_core.types import Sample, TrainMetrics
from lego_core.weight_broadcast import Meeting, WeightsSender
from lego_core.weight_files import ChangesWriter, write_weights


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerSpec:
    """What to train and how; plain values, so that it can be sent to another process."""

    model_dir: Path
    config: TrainConfig
    temperature: float
    """The sampler's; otherwise the recomputed log-probabilities belong to another distribution."""
    num_threads: int = 1
    seed: int = 0
    dtype: str = "float32"
    experts: str = "grouped_mm"
    max_tokens: int = 170_000
    """The most a rollout may sample: Dr. GRPO divides by it."""
    changes_in: str | None = None
    """The engines' dtype, if each export but the first is to hold only what changed in it; None: all weights as
    they are, each time."""
    is_broadcast: bool = False
    """Each export is followed by `broadcast`."""


class Trainer:
    """Policy, frozen reference, optimizer."""

    def __init__(self, spec: TrainerSpec, ranks: Ranks = ALONE) -> None:
        """Load the model; raises UsageError when it cannot be loaded. Every rank makes a trainer, calls each method
        with the same arguments and gets the same answer."""
        torch.set_num_threads(spec.num_threads)
        torch.manual_seed(spec.seed)
        self._spec, self._config, self._ranks = spec, spec.config, ranks
        self._objective = make_objective(spec.config, max_tokens=spec.max_tokens)
        self._dtype = getattr(torch, spec.dtype)
        self._precise = torch.promote_types(self._dtype, torch.float32)  # of everything behind the model
        self._device = pick_device()
        self._policy = self._load()
        self._model, self._routers = self._policy.model, self._policy.routers
        self._reference = self._load() if spec.config.kl_coef > 0 else None
        self._optimizer = make_optimizer(self._model, spec.config, ranks)
        self._sender = WeightsSender()
        self._write = self._sender.write if spec.is_broadcast else write_weights
        if spec.changes_in:
            self._write = ChangesWriter(getattr(torch, spec.changes_in)).write

    def _load(self) -> Scorer:
        spec = self._spec
        return load_scorer(
            spec.model_dir,
            dtype=self._dtype,
            device=self._device,
            experts=spec.experts,
            temperature=spec.temperature,
            packed=spec.config.packing,
            checkpointed=spec.config.activation_checkpointing,
            ranks=self._ranks,
        )

    def train_step(self, samples: Sequence[Sample], step: int = 1) -> TrainMetrics:
        """`updates_per_batch` optimizer updates on one batch; raises TrainingError. `step`, 1-based, is the run's:
        it alone determines the learning rate, so that a resumed run has the same, and the weights at its start are
        policy version `step` − 1."""
        started = time.monotonic()
        self._check(samples)
        set_learning_rate(self._optimizer, learning_rate(self._config, step))
        batches, counts = self._prepare(samples, version=step - 1)
        reference = self._reference.logprobs(batches) if self._reference else None
        old = None if self._config.old_logprobs == "recompute" else [b.rollout_logprobs for b in batches]
        router = RouterAgreement()
        passes: list[Pass] = []
        norms: list[float] = []
        for _ in range(self._config.updates_per_batch):
            ratio = self._rollout_ratio(batches, old, len(counts))
            facts = Facts(counts=counts, old=old, rollout_ratio=ratio, reference=reference)
            self._optimizer.zero_grad(set_to_none=True)
            passes.append(self._pass(batches, facts, None if passes else router))
            norms.append(clip_gradients(self._model, self._config.grad_clip, self._ranks))
            self._optimizer.step()
            # As large as the weights, of which a checkpoint and an export make copies next.
            self._optimizer.zero_grad(set_to_none=True)
            old = old or [s.logp for s in passes[0].scores]
        return step_metrics(
            batches,
            passes,
            norms,
            router,
            self._ranks,
            version=step - 1,
            coverage=self._coverage(samples),
            seconds=time.monotonic() - started,
        )

    def _pass(self, batches: Sequence[DeviceBatch], facts: Facts, router: RouterAgreement | None) -> Pass:
        return gradients(self._policy, self._objective, self._config, batches, facts, self._ranks, router)

    def _rollout_ratio(
        self, batches: Sequence[DeviceBatch], old: list[Tensor] | None, rollouts: int
    ) -> Tensor | None:
        """`[R]` mean log-ratio before the update, if the objective asks for it and it is not 0."""
        if old is None or not self._objective.per_rollout:
            return None
        counted = torch.cat([torch.full_like(b.rollout, b.is_counted, dtype=torch.bool) for b in batches])
        logp, before, rollout = (
            torch.cat(parts)[counted]
            for parts in (self._policy.logprobs(batches), old, [b.rollout for b in batches])
        )
        return rollout_log_ratios(logp, before, rollout, rollouts, self._ranks.sum)[0]

    def _prepare(self, samples: Sequence[Sample], *, version: int) -> tuple[list[DeviceBatch], Tensor]:
        """This rank's micro-batches, and `[R]` trained tokens of each rollout of the whole batch."""
        if not self._config.routing_replay:
            samples = [replace(s, routes=None) for s in samples]
        packed, rollouts = pack(
            samples,
            max_tokens=self._config.micro_batch_tokens,
            version=version,
            packed=self._config.packing,
            multiple=self._ranks.context_size,
        )
        batches = [
            to_device(p, self._device, self._precise, context=self._ranks.context, is_counted=is_counted)
            for p, is_counted in self._ranks.share(packed)
        ]
        counts = np.bincount(np.concatenate([p.rollout for p in packed]), minlength=rollouts)
        return batches, torch.from_numpy(counts).to(self._device, self._precise)

    def _coverage(self, samples: Sequence[Sample]) -> float:
        replays = self._config.routing_replay and self._routers
        return coverage(samples, [layer for layer, _ in self._routers]) if replays else 0.0

    def _check(self, samples: Sequence[Sample]) -> None:
        if not samples:
            raise TrainingError("an empty batch was given to the trainer, expected at least one sample")
        for sample in samples:
            if sample.mask[0] or not sample.mask.any():
                raise TrainingError(
                    f"rollout {sample.rollout_id}: a sample must train some tokens, but never its first"
                )
        if self._config.routing_replay and self._routers:
            router = self._routers[0][1]
            check_routes(
                samples,
                [layer for layer, _ in self._routers],
                num_layers=self._model.config.num_hidden_layers,
                num_experts=router.weight.shape[0],
                top_k=router.top_k,
            )

    def score(self, sample: Sample) -> NDArray[np.float32]:
        """`[m]` log-probabilities of the sample's masked tokens, in order, under the current weights."""
        batches, _ = self._prepare([sample], version=0)
        scored = zip(self._policy.logprobs(batches), batches, strict=True)
        mine = [logp.cpu() for logp, batch in scored if batch.is_counted]
        return torch.cat([part for parts in self._ranks.gather(mine) for part in parts]).float().numpy()

    def export(self, path: Path) -> None:
        """Write the weights, or what changed of them, as one safetensors file in checkpoint names, atomically;
        if they are broadcast as well, it need not be there before `broadcast` returns."""
        tensors = whole_weights(self._model, self._ranks)
        if self._ranks.rank == 0:
            self._write(tensors, path)

    def broadcast(self, meeting: Meeting, store: Store) -> None:
        """Send what was exported last to the engines that come to `store`; raises EngineError and OSError."""
        if self._ranks.rank == 0:
            self._sender.send(meeting, store, self._device)

    def begin_checkpoint(self, directory: Path, state: dict[str, Any]) -> Writing:
        """See `training.checkpoint`; `state` must be JSON."""
        spec = self._spec
        return begin_checkpoint(
            directory, self._model, self._optimizer, state, model_dir=spec.model_dir, ranks=self._ranks
        )

    def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        """Begin it and wait until it is there."""
        self.begin_checkpoint(directory, state).wait()

    def load_checkpoint(self, directory: Path) -> dict[str, Any]:
        """Continue from a checkpoint; returns its `state`. The reference stays the model's own weights."""
        return load_checkpoint(directory, self._model, self._optimizer, self._ranks)
