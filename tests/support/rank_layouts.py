"""Runs `ranks_program` and compares what a layout of ranks computed with what one rank did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]


def run_layouts(model, out, layouts, **environment):
    """One rank, then each of `{name: "ranks,experts,context"}`; see `ranks_program` for what lies in `out`."""
    named = [f"{name}:{numbers}" for name, numbers in {"one": "1,1,1", **layouts}.items()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.ranks_program", str(model), str(out), *named],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-4000:]


def assert_is_one_rank(model, out, name, *, rel=1e-5, noise=1):
    """Of fp32 metrics, and `noise` times that of the size of each weight's movement, which is its gradients."""
    one, other = (json.loads((out / f"{n}.json").read_text()) for n in ("one", name))
    for step in (0, 1):
        for key in ("loss", "grad_norm", "kl_loss", "entropy", "pearson_r", "k3", "expert_overlap"):
            assert other[step][key] == pytest.approx(one[step][key], rel=rel, abs=1e-6), key
        assert other[step]["trained_tokens"] == one[step]["trained_tokens"]
    start = load_file(model / "model.safetensors")
    for step in (1, 2):
        expected, got = (load_file(out / f"{n}.{step}.safetensors") for n in ("one", name))
        assert expected.keys() == got.keys() == start.keys()
        for weight, value in expected.items():
            moved = (value - start[weight]).abs().max().item()
            rounding = 3e-7 * value.abs().max().item()  # of the weights themselves
            assert (got[weight] - value).abs().max().item() <= noise * rel * moved + rounding, (step, weight)
