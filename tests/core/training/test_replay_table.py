"""Table 7, with an engine that routes like the trainer: the reference implementation itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from lego_core.config import TrainConfig
from lego_core.training.replay_table import ROWS, markdown, routing_table
from lego_core.training.trainer import TrainerSpec
from tests.support.samples import random_sample
from tests.support.tiny_model import build_random_model


def as_engine(folder, sample):
    """The sample with routes and log-probabilities of transformers on slightly different weights: another
    engine's rounding, which turns some routes."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    noise = torch.Generator().manual_seed(0)
    rows = []
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1e-2 * parameter.std() * torch.randn(parameter.shape, generator=noise))
        for layer in model.model.layers:
            layer.mlp.gate.register_forward_hook(lambda _m, _i, out: rows.append(out[2]))
        ids = torch.from_numpy(sample.ids.astype(np.int64))[None]
        logp = model(ids, use_cache=False).logits[0, :-1].log_softmax(-1).gather(-1, ids[0, 1:, None])
    routes = torch.stack(rows, 1).numpy().astype(np.int16)
    routes[-1] = -1
    logprobs = np.concatenate([[0], logp[:, 0].numpy()]).astype(np.float32)
    return replace(sample, routes=routes, rollout_logprobs=np.where(sample.mask, logprobs, 0))


def test_aligned_agrees_best_and_misaligned_worst(tmp_path):
    folder = build_random_model(tmp_path, init_std=0.25)
    samples = [as_engine(folder, random_sample(f"r{i}", 120, seed=i)) for i in range(3)]
    table = routing_table(TrainerSpec(model_dir=folder, config=TrainConfig(), temperature=1.0), samples)
    off, shifted, aligned = (table[row] for row in ROWS)
    assert aligned.k3 < off.k3 < shifted.k3
    assert aligned.mean_abs_dp < off.mean_abs_dp < shifted.mean_abs_dp
    assert aligned.pearson_r > off.pearson_r > shifted.pearson_r
    assert aligned.expert_overlap > 0.9 > shifted.expert_overlap
    assert off.expert_overlap is None
    assert aligned.routing_coverage == pytest.approx(1)
    assert markdown(table).count("\n") == 4
