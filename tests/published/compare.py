"""Our objectives beside TRL's and verl's, on the same random tokens in float64; prints JSON.

Run by `test_published.py` in an environment that has both. Each entry is the largest difference of
loss and gradient, relative to the gradient's size. Where they define things differently, the case is
set so that the definitions meet, and says so.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import torch
from trl import GRPOTrainer
from verl.trainer.ppo import core_algos, rollout_corr_helper
from verl.workers.config import ActorConfig

from lego_core.algorithms.cispo import Cispo
from lego_core.algorithms.correction import rollout_correction
from lego_core.algorithms.dr_grpo import DrGrpo
from lego_core.algorithms.grpo import Dapo, Grpo
from lego_core.algorithms.gspo import Gspo, rollout_log_ratios
from lego_core.algorithms.objective import policy_loss
from lego_core.batching.advantages import group_advantages

B, T, LOW, HIGH, KL, BOUND = 6, 9, 0.15, 0.2, 0.05, 2.0
random = torch.Generator().manual_seed(0)
MASK = torch.rand(B, T, generator=random) < 0.7
MASK[:, 0] = True
OLD = -3 * torch.rand(B, T, generator=random, dtype=torch.float64)
DELTA = 0.3 * torch.randn(B, T, generator=random, dtype=torch.float64)
SAMPLED = OLD + 0.8 * torch.randn(B, T, generator=random, dtype=torch.float64)
REFERENCE = OLD + 0.2 * torch.randn(B, T, generator=random, dtype=torch.float64)
ADVANTAGE = torch.randn(B, generator=random, dtype=torch.float64)
ROLLOUT = torch.arange(B)[:, None].expand(B, T)[MASK]
COUNTS = MASK.sum(-1).double()


def ours(objective, delta, *, kl=0.0, correction=None):
    """`(loss, [N] gradient)`."""
    logp = (OLD + delta)[MASK].requires_grad_()
    ratio = delta[MASK]
    if objective.per_rollout:
        ratio = rollout_log_ratios(logp, OLD[MASK], ROLLOUT, B)[0][ROLLOUT]
    weight = objective.weights(COUNTS, ROLLOUT)
    result = policy_loss(
        objective,
        logp,
        ratio,
        ADVANTAGE[ROLLOUT],
        weight,
        correction=correction,
        reference=REFERENCE[MASK],
        kl_coef=kl,
    )
    result.loss.backward()
    return result.loss.item(), logp.grad


def verl(kind, mode, delta, *, weights=None, scale=None):
    logp = (OLD + delta).requires_grad_()
    config = ActorConfig(
        strategy="fsdp",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=LOW,
        clip_ratio_high=HIGH,
        clip_ratio_c=1e9,  # no dual clip: our GRPO is the published formula
    )
    if scale:
        config.global_batch_info["loss_scale_factor"] = scale
    function = core_algos.get_policy_loss_fn(kind)
    advantage = ADVANTAGE[:, None].expand(B, T)
    loss, _ = function(
        OLD, logp, advantage, MASK.double(), loss_agg_mode=mode, config=config, rollout_is_weights=weights
    )
    loss.backward()
    return loss.item(), logp.grad[MASK]


def trl(kind, level, delta, *, beta=0.0, high=HIGH, correction=None):
    """The trainer's own loss, with a model that answers the given log-probabilities."""
    logp = (OLD + delta).requires_grad_()
    trainer = object.__new__(GRPOTrainer)
    one = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x)
    trainer.__dict__.update(
        accelerator=one,
        args=SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=1),
        aux_loss_enabled=False,
        beta=beta,
        current_gradient_accumulation_steps=1,
        epsilon_high=high,
        epsilon_low=LOW,
        importance_sampling_level=level,
        loss_type=kind,
        max_completion_length=20,
        model=SimpleNamespace(training=True),
        off_policy_mask_threshold=None,
        top_entropy_quantile=1.0,
        use_vllm=correction is not None,
        vllm_importance_sampling_correction=True,
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list)},
    )
    trainer._get_per_token_logps_and_entropies = lambda *_, **__: (logp, torch.zeros_like(logp), None)
    ids = torch.zeros(B, T, dtype=torch.long)
    inputs = {
        "prompt_ids": ids,
        "prompt_mask": ids,
        "completion_ids": ids,
        "completion_mask": MASK.double(),
        "advantages": ADVANTAGE,
        "old_per_token_logps": OLD,
        "ref_per_token_logps": REFERENCE,
        "num_items_in_batch": MASK.sum(),
        "importance_sampling_ratio": correction,
    }
    loss = trainer._compute_loss(trainer.model, inputs)
    loss.backward()
    return loss.item(), logp.grad[MASK]


def gap(a, b):
    scale = max(float(a[1].abs().max()), abs(a[0]))
    return max(abs(a[0] - b[0]), float((a[1] - b[1]).abs().max())) / scale


def corrections():
    """Per token, from both libraries, in our three kinds."""
    difference = OLD - SAMPLED
    spec = {"truncate": str(BOUND), "mask": f"{1 / BOUND}_{BOUND}"}
    for kind, threshold in spec.items():
        mine = rollout_correction(OLD[MASK], SAMPLED[MASK], kind=kind, bound=BOUND)
        theirs, _ = rollout_corr_helper.compute_rollout_correction_weights(
            difference, MASK.double(), rollout_is="token", rollout_is_threshold=threshold
        )
        yield f"verl correction {kind}", float((mine - theirs[MASK]).abs().max())


def main():
    bounds = {"clip_low": LOW, "clip_high": HIGH}
    upward = DELTA.clamp(min=np.log(1 - LOW) + 1e-6)  # TRL's CISPO has no lower bound
    cut = rollout_correction(OLD, SAMPLED, kind="truncate", bound=BOUND)
    gspo, grpo, dapo = Gspo(**bounds), Grpo(**bounds), Dapo(**bounds)
    dr, cispo = DrGrpo(**bounds, max_tokens=20), Cispo(**bounds)
    found = {
        "verl gspo": gap(ours(gspo, DELTA), verl("gspo", "seq-mean-token-mean", DELTA)),
        "verl grpo": gap(ours(grpo, DELTA), verl("vanilla", "seq-mean-token-mean", DELTA)),
        "verl dapo": gap(ours(dapo, DELTA), verl("vanilla", "token-mean", DELTA)),
        "verl dr_grpo": gap(ours(dr, DELTA), verl("vanilla", "seq-mean-token-sum-norm", DELTA, scale=20)),
        "verl cispo": gap(ours(cispo, DELTA), verl("cispo", "token-mean", DELTA)),
        "verl gspo corrected": gap(
            ours(gspo, DELTA, correction=cut[MASK]), verl("gspo", "seq-mean-token-mean", DELTA, weights=cut)
        ),
        # TRL's sequence level has the ratio's own gradient: the same after the mean over tokens
        "trl gspo": gap(ours(gspo, DELTA), trl("grpo", "sequence", DELTA)),
        "trl gspo with kl": gap(ours(gspo, DELTA, kl=KL), trl("grpo", "sequence", DELTA, beta=KL)),
        "trl grpo": gap(ours(grpo, DELTA, kl=KL), trl("grpo", "token", DELTA, beta=KL)),
        "trl dapo": gap(ours(dapo, DELTA), trl("dapo", "token", DELTA)),
        "trl dr_grpo": gap(ours(dr, DELTA), trl("dr_grpo", "token", DELTA)),
        "trl cispo": gap(ours(cispo, upward), trl("cispo", "token", upward, high=1 + HIGH)),
        "trl dapo corrected": gap(
            ours(dapo, DELTA, correction=cut[MASK]), trl("dapo", "token", DELTA, correction=cut)
        ),
        **dict(corrections()),
    }
    rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.5, 0.0], dtype=torch.float64)
    for divide in (True, False):
        theirs, _ = core_algos.compute_grpo_outcome_advantage(
            rewards[:, None].clone(),
            torch.ones(B, 1),
            np.zeros(B),
            norm_adv_by_std_in_grpo=divide,
        )
        mine = group_advantages(rewards.tolist(), divide_by_std=divide)
        found[f"verl advantage, divided: {divide}"] = float(np.abs(mine - theirs[:, 0].numpy()).max())
    json.dump(found, sys.stdout)


main()
