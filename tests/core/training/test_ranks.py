"""Any layout of ranks computes what one rank does: loss, gradients, metrics, and the next step after a resume."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from lego_core.config import parse_recipe
from lego_core.training.ranks import Ranks
from lego_harness.errors import UsageError
from tests.support.tiny_model import build_random_hybrid, build_random_model

ROOT = Path(__file__).parents[3]
LAYOUTS = {
    "fsdp": "2,1,1",
    "experts": "2,2,1",
    "context": "2,1,2",
    "fsdp_experts": "4,2,1",
    "context_of_four": "4,1,4",
    "all_of_it": "4,2,2",
}
"""Name → ranks, expert parallel, context parallel; what is left over is data parallel."""


def run(model, out, layouts):
    named = [f"{name}:{numbers}" for name, numbers in {"one": "1,1,1", **layouts}.items()]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.ranks_program", str(model), str(out), *named],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def assert_equal(model, out, name):
    """fp32: 1e-5 of the size of each weight's movement, which is its gradient."""
    one, other = (json.loads((out / f"{n}.json").read_text()) for n in ("one", name))
    for key in ("loss", "grad_norm", "kl_loss", "entropy", "pearson_r", "k3", "expert_overlap"):
        assert other["first"][key] == pytest.approx(one["first"][key], rel=1e-5, abs=1e-6), key
    assert other["first"]["trained_tokens"] == one["first"]["trained_tokens"]
    assert other["next"] == pytest.approx(one["next"], rel=1e-5, abs=1e-6)
    assert other["resumed"] == pytest.approx(other["next"], rel=1e-6)
    start = load_file(model / "model.safetensors")
    expected, got = (load_file(out / f"{n}.safetensors") for n in ("one", name))
    assert expected.keys() == got.keys() == start.keys()
    for weight, value in expected.items():
        moved = (value - start[weight]).abs().max().item()
        rounding = 3e-7 * value.abs().max().item()  # of the weights themselves
        assert (got[weight] - value).abs().max().item() <= 1e-5 * moved + rounding, weight


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    model = build_random_model(tmp_path_factory.mktemp("qwen3"), hidden=32)
    out = tmp_path_factory.mktemp("ranks")
    run(model, out, LAYOUTS)
    return model, out


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_one_rank(qwen, name):
    assert_equal(*qwen, name)


@pytest.mark.slow
def test_so_it_is_for_hybrid_layers(tmp_path_factory):
    model = build_random_hybrid(tmp_path_factory.mktemp("qwen3_5"))
    out = tmp_path_factory.mktemp("ranks")
    run(model, out, {"all_of_it": "4,2,2"})
    assert_equal(model, out, "all_of_it")


@pytest.mark.parametrize(("batches", "size"), [(1, 4), (5, 2), (8, 4), (7, 3)])
def test_ranks_work_equally_often_and_every_micro_batch_counts_once(batches, size):
    shares = [Ranks(rank=r, size=size).share(range(batches)) for r in range(size)]
    assert len({len(share) for share in shares}) == 1
    assert sorted(i for share in shares for i, counts in share if counts) == list(range(batches))


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"num_ranks": 4, "expert_parallel": 3}, "must divide num_ranks"),
        ({"num_ranks": 4, "context_parallel": 3, "packing": True}, "must divide num_ranks"),
        ({"num_ranks": 2, "context_parallel": 2}, "expected packing = true"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(train, message):
    with pytest.raises(UsageError, match=message):
        parse_recipe({"train": train})
