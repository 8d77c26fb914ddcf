"""Any layout of ranks computes what one rank does: loss, gradients, metrics, and the next step after a
checkpoint that another layout wrote."""

from __future__ import annotations

import pytest
import torch

from lego_core.recipe_file import parse_recipe
from lego_core.training.exchange import Group
from lego_core.training.ranks import Ranks
from lego_core.training.scorer import load_scorer
from lego_harness.errors import UsageError
from tests.support.rank_layouts import assert_is_one_rank, run_layouts
from tests.support.tiny_model import build_random_hybrid, build_random_model

LAYOUTS = {
    "fsdp": "2,1,1",
    "experts": "2,2,1",
    "context": "2,1,2",
    "fsdp_experts": "4,2,1",
    "context_of_four": "4,1,4",
    "all_of_it": "4,2,2",
    "one_again": "1,1,1",
}
"""Name → ranks, expert parallel, context parallel; what is left over is data parallel."""
THREE = Group(process_group=None, rank=0, size=3)


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    model = build_random_model(tmp_path_factory.mktemp("qwen3"), hidden=32)
    out = tmp_path_factory.mktemp("ranks")
    run_layouts(model, out, LAYOUTS, CUDA_VISIBLE_DEVICES="")
    return model, out


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_one_rank(qwen, name):
    assert_is_one_rank(*qwen, name)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_so_it_is_for_hybrid_layers_and_a_head_that_is_the_embedding(tmp_path_factory):
    model = build_random_hybrid(tmp_path_factory.mktemp("qwen3_5"), tied=True)
    out = tmp_path_factory.mktemp("ranks")
    run_layouts(model, out, {"experts_and_context": "2,2,2"}, CUDA_VISIBLE_DEVICES="")
    assert_is_one_rank(model, out, "experts_and_context", noise=5)  # the delta rule's terms nearly cancel


@pytest.mark.parametrize(("batches", "size"), [(1, 4), (5, 2), (8, 4), (7, 3)])
def test_ranks_work_equally_often_and_every_micro_batch_is_counted_once(batches, size):
    shares = [Ranks(rank=r, size=size).share(range(batches)) for r in range(size)]
    assert len({len(share) for share in shares}) == 1
    assert sorted(i for share in shares for i, counted in share if counted) == list(range(batches))


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


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"experts": THREE}, r"^the model has 8 experts a layer, .* train\.expert_parallel = 3"),
        ({"context": THREE}, r"^the model's 4 attention heads, 2 for keys, .* train\.context_parallel = 3"),
    ],
)
def test_so_are_those_that_the_model_cannot_have(tmp_path, layout, message):
    model = build_random_model(tmp_path, hidden=32)
    cpu, ranks = torch.device("cpu"), Ranks(size=3, **layout)
    with pytest.raises(UsageError, match=message):
        load_scorer(
            model, dtype=torch.float32, device=cpu, experts="eager", temperature=1.0, packed=True, ranks=ranks
        )


@pytest.mark.parametrize(("size", "kind"), [(1, "meta"), (3, "cpu")])
def test_a_model_that_is_to_be_sharded_is_not_moved_to_one_device_first(tmp_path, monkeypatch, size, kind):
    """The meta device stands for a GPU, into which the whole need not fit."""
    seen = []

    def sharded(model, ranks):
        seen.append({p.device.type for p in model.parameters()})

    monkeypatch.setattr("lego_core.training.scorer.Sharded", sharded)
    scorer = load_scorer(
        build_random_model(tmp_path, hidden=32),
        dtype=torch.float32,
        device=torch.device("meta"),
        experts="grouped_mm",
        temperature=1.0,
        ranks=Ranks(size=size),
    )
    assert {p.device.type for p in scorer.model.parameters()} == {kind}
    assert seen == ([{kind}] if size > 1 else [])
