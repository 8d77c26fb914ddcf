"""The trainer on an accelerator: the same step, in float32 and in bfloat16, and over NCCL."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lego_core.config import TrainConfig
from lego_core.training.trainer import Trainer, TrainerSpec
from tests.support.rank_layouts import assert_is_one_rank, run_layouts
from tests.support.samples import random_sample
from tests.support.tiny_model import build_random_model

pytestmark = pytest.mark.gpu


def step(folder, *, dtype="float32", packing=True):
    config = TrainConfig(packing=packing, activation_checkpointing=packing)
    spec = TrainerSpec(model_dir=folder, config=config, temperature=1.0, dtype=dtype)
    samples = [random_sample(f"r{i}", 200 + 31 * i, seed=i, advantage=(-1.0) ** i) for i in range(5)]
    return Trainer(spec).train_step(samples)


def test_packed_is_padded_on_the_gpu_and_bfloat16_is_near(tmp_path):
    folder = build_random_model(tmp_path)
    padded, packed, half = step(folder, packing=False), step(folder), step(folder, dtype="bfloat16")
    assert packed.loss == pytest.approx(padded.loss, abs=1e-5)
    assert packed.grad_norm == pytest.approx(padded.grad_norm, rel=1e-3)
    assert half.entropy == pytest.approx(padded.entropy, rel=1e-2)
    assert half.grad_norm == pytest.approx(padded.grad_norm, rel=5e-2)


def test_the_cpu_computes_the_same(tmp_path):
    folder = build_random_model(tmp_path)
    program = (
        "import sys; from pathlib import Path; from tests.core.training.test_gpu import step; "
        "print(step(Path(sys.argv[1])).grad_norm)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert torch.cuda.is_available()
    assert step(folder).grad_norm == pytest.approx(float(done.stdout.splitlines()[-1]), rel=1e-3)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two accelerators")
def test_ranks_over_nccl_compute_what_one_does(tmp_path):
    folder = build_random_model(tmp_path / "model", hidden=32)
    layouts = {"fsdp": "2,1,1", "experts": "2,2,1", "context": "2,1,2"}
    run_layouts(folder, tmp_path, layouts)
    for name in layouts:
        assert_is_one_rank(folder, tmp_path, name, rel=1e-3)
