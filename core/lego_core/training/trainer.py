"""The trainer: samples in, one optimizer step, measured against the rollout.

    samples ─pack─▶ micro-batches ─▶ forward (routes replayed) ─▶ GSPO + KL ─▶ backward ─▶ AdamW
                                        └── agreement, entropy, routing metrics

Old log-probabilities are those of the trainer's weights at the start of the step, recomputed with
routes replayed, never the engine's: rounding alone would clip. In the first update of a step they
are the numbers the update computes anyway, so it needs no extra pass and its ratio is 1; later
updates run one pass without gradient to know each rollout's ratio before its loss.

Invariant: a step that raises TrainingError has not touched the weights with the update it refused.
Owns no process and no publishing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lego_core.algorithms.divergence import agreement
from lego_core.algorithms.gspo import GspoLoss, gspo_loss, rollout_log_ratios, token_weights
from lego_core.batching.packing import pack
from lego_core.config import TrainConfig
from lego_core.errors import TrainingError
from lego_core.training.checkpoint import load_checkpoint, save_checkpoint
from lego_core.training.logprobs import DeviceBatch, TokenScores, score_tokens, to_device
from lego_core.training.model import load_policy, write_weights
from lego_core.training.optimizer import clip_gradients, learning_rate, make_optimizer, set_learning_rate
from lego_core.training.routing_replay import (
    RouterAgreement,
    check_routes,
    coverage,
    install_replay,
    replaying,
)
from lego_core.types import Sample, TrainMetrics


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainerSpec:
    """What to train and how; plain values, so that it travels."""

    model_dir: Path
    config: TrainConfig
    temperature: float
    """The sampler's, or the recomputed log-probabilities are of another distribution."""
    num_threads: int = 1
    seed: int = 0
    dtype: str = "float32"
    experts: str = "grouped_mm"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Update:
    """One pass over the batch with gradient."""

    scores: list[TokenScores]
    loss: float
    kl: float
    clipped: float
    grad_norm: float


class Trainer:
    """Policy, frozen reference, optimizer."""

    def __init__(self, spec: TrainerSpec) -> None:
        """Load the model; raises UsageError when it cannot be."""
        torch.set_num_threads(spec.num_threads)
        torch.manual_seed(spec.seed)
        self._spec, self._config = spec, spec.config
        self._dtype = getattr(torch, spec.dtype)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._model, self._routers = self._load()
        self._reference = self._load() if spec.config.kl_coef > 0 else None
        self._optimizer = make_optimizer(self._model, spec.config)

    def _load(self) -> tuple[Any, Any]:
        spec = self._spec
        model = load_policy(spec.model_dir, dtype=self._dtype, device=self._device, experts=spec.experts)
        return model, install_replay(model)

    def train_step(self, samples: Sequence[Sample], step: int = 1) -> TrainMetrics:
        """`updates_per_batch` optimizer updates on one batch; raises TrainingError. `step`, 1-based,
        is the run's: the learning rate follows from it alone, so that a resumed run has the same."""
        started = time.monotonic()
        self._check(samples)
        set_learning_rate(self._optimizer, learning_rate(self._config, step))
        batches, rollouts, counts = self._prepare(samples)
        reference = self._score_all(batches, self._reference)
        router = RouterAgreement()
        first = self._update(batches, counts, torch.zeros_like(counts), reference, router)
        updates, old = [first], torch.cat([s.logp for s in first.scores])
        for _ in range(1, self._config.updates_per_batch):
            logp = torch.cat(self._score_all(batches, (self._model, self._routers)) or [])
            ratios, _ = rollout_log_ratios(logp, old, torch.cat([b.rollout for b in batches]), rollouts)
            updates.append(self._update(batches, counts, ratios, reference, None))
        return self._metrics(samples, batches, updates, router, time.monotonic() - started)

    def _prepare(self, samples: Sequence[Sample]) -> tuple[list[DeviceBatch], int, Tensor]:
        """Micro-batches, number of rollouts R, `[R]` trained tokens of each."""
        if not self._config.routing_replay:
            samples = [replace(s, routes=None) for s in samples]
        packed, rollouts = pack(samples, max_tokens=self._config.micro_batch_tokens)
        batches = [to_device(p, self._device, self._dtype) for p in packed]
        index = torch.cat([b.rollout for b in batches])
        counts = torch.zeros(rollouts, device=self._device, dtype=self._dtype)
        return batches, rollouts, counts.index_add(0, index, torch.ones_like(index, dtype=self._dtype))

    @torch.no_grad()
    def _score_all(self, batches: Sequence[DeviceBatch], policy: Any) -> list[Tensor] | None:
        """`[N]` log-probabilities per micro-batch; None without a policy."""
        if policy is None:
            return None
        model, routers = policy
        scores: list[Tensor] = []
        for batch in batches:
            with replaying(routers, batch.routes):
                scores.append(score_tokens(model, batch, temperature=self._spec.temperature).logp)
        return scores

    def _update(
        self,
        batches: Sequence[DeviceBatch],
        counts: Tensor,
        log_ratios: Tensor,
        reference: list[Tensor] | None,
        router: RouterAgreement | None,
    ) -> _Update:
        self._optimizer.zero_grad(set_to_none=True)
        scores: list[TokenScores] = []
        losses: list[GspoLoss] = []
        for i, batch in enumerate(batches):
            with replaying(self._routers, batch.routes, router):
                score = score_tokens(self._model, batch, temperature=self._spec.temperature)
                loss = self._loss(score.logp, batch, counts, log_ratios, reference[i] if reference else None)
                loss.loss.backward()
            scores.append(TokenScores(logp=score.logp.detach(), entropy=score.entropy))
            losses.append(loss)
        norm = clip_gradients(self._model, self._config.grad_clip)
        self._optimizer.step()
        return _Update(
            scores=scores,
            loss=sum(float(x.loss.detach()) for x in losses),
            kl=sum(float(x.kl) for x in losses),
            clipped=sum(float(x.clipped) for x in losses),
            grad_norm=norm,
        )

    def _loss(
        self, logp: Tensor, batch: DeviceBatch, counts: Tensor, log_ratios: Tensor, reference: Tensor | None
    ) -> GspoLoss:
        return gspo_loss(
            logp,
            log_ratios[batch.rollout],
            batch.advantage,
            token_weights(counts, batch.rollout),
            clip_low=self._config.clip_low,
            clip_high=self._config.clip_high,
            reference=reference,
            kl_coef=self._config.kl_coef,
        )

    def _check(self, samples: Sequence[Sample]) -> None:
        if not samples:
            raise TrainingError("an empty batch was given to the trainer, expected at least one sample")
        for sample in samples:
            if sample.mask[0] or not sample.mask.any():
                raise TrainingError(
                    f"rollout {sample.rollout_id}: a sample must train some tokens, but never its first"
                )
        if self._config.routing_replay and self._routers:
            config = self._model.config
            check_routes(
                samples,
                [layer for layer, _ in self._routers],
                num_layers=config.num_hidden_layers,
                num_experts=config.num_experts,
                top_k=config.num_experts_per_tok,
            )

    def _metrics(
        self,
        samples: Sequence[Sample],
        batches: Sequence[DeviceBatch],
        updates: Sequence[_Update],
        router: RouterAgreement,
        seconds: float,
    ) -> TrainMetrics:
        """Agreement, entropy and routing of the weights that started the step; means over updates."""
        scores = updates[0].scores
        agreed = agreement(
            torch.cat([s.logp for s in scores]), torch.cat([b.rollout_logprobs for b in batches])
        )
        replays = self._config.routing_replay and bool(self._routers)
        return TrainMetrics(
            loss=_mean([u.loss for u in updates]),
            grad_norm=_mean([u.grad_norm for u in updates]),
            clip_fraction=_mean([u.clipped for u in updates]),
            kl_loss=_mean([u.kl for u in updates]),
            entropy=float(torch.cat([s.entropy for s in scores]).double().mean()),
            pearson_r=agreed.pearson_r,
            mean_abs_dlogp=agreed.mean_abs_dlogp,
            k3=agreed.k3,
            routing_coverage=coverage(samples, [i for i, _ in self._routers]) if replays else 0.0,
            expert_overlap=router.overlap / router.rows if router.rows else None,
            top1_agreement=router.top1 / router.rows if router.rows else None,
            trained_tokens=sum(int(s.mask.sum()) for s in samples),
            seconds={"step": seconds},
        )

    def export(self, path: Path) -> None:
        """Write the weights as one safetensors file in checkpoint names, atomically."""
        write_weights(self._model, path)

    def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        """See `training.checkpoint`; `state` must be JSON."""
        save_checkpoint(directory, self._model, self._optimizer, state, model_dir=self._spec.model_dir)

    def load_checkpoint(self, directory: Path) -> dict[str, Any]:
        """Continue from a checkpoint; its `state`. The reference stays the model's own weights."""
        return load_checkpoint(directory, self._model, self._optimizer)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
