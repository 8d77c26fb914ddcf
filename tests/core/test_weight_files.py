"""Weights that travel as what changed are, bit by bit, those that would have travelled whole."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file

from lego_core.weight_files import ChangesWriter, assembled, write_weights
from lego_harness.errors import EngineError

SHAPES = {"embedding": (40, 8), "bias": (40,), "scalar": (), "nothing": (0, 4), "expert": (3, 5, 7)}


def bits(tensors):
    return {name: (t.dtype, t.shape, t.reshape(-1).view(torch.uint8).tolist()) for name, t in tensors.items()}


def versions(seed, shares, dtype):
    """A state after each of some updates, of which each changes a share of every tensor's places."""
    random = torch.Generator().manual_seed(seed)
    state = {name: torch.randn(shape, generator=random).to(dtype) for name, shape in SHAPES.items()}
    yield state
    for share in shares:
        state = {
            name: torch.where(torch.rand(t.shape, generator=random) < share, _odd(t, random), t)
            for name, t in state.items()
        }
        yield state


def _odd(tensor, random):
    """Numbers that compare strangely among them."""
    new = torch.randn(tensor.shape, generator=random).to(tensor.dtype)
    strange = torch.tensor([0.0, -0.0, float("nan"), float("inf")])[
        torch.randint(0, 4, tensor.shape, generator=random)
    ]
    return torch.where(torch.rand(tensor.shape, generator=random) < 0.3, strange.to(tensor.dtype), new)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    shares=st.lists(st.sampled_from([0.0, 0.02, 0.5, 1.0]), min_size=1, max_size=4),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_changes_put_together_are_the_weights_sent_whole(tmp_path_factory, seed, shares, dtype):
    folder: Path = tmp_path_factory.mktemp("wire")
    writer, last = ChangesWriter(dtype), None
    for number, state in enumerate(versions(seed, shares, dtype)):
        file, whole = folder / f"{number}.file", folder / f"{number}.whole"
        writer.write(state, file)
        write_weights(state, whole)
        last = assembled(file, last, folder / f"{number}.assembled")
        assert bits(load_file(last)) == bits(load_file(whole))
        assert payload(file) <= payload(whole)


def payload(file):
    return sum(tensor.nbytes for tensor in load_file(file).values())


def test_what_the_engines_round_away_is_not_sent_and_vectors_are_sent_as_they_are(tmp_path):
    """Of a step of 1e-6 bfloat16 keeps next to nothing."""
    random = torch.Generator().manual_seed(0)
    before = {"matrix": torch.randn(200, 100, generator=random), "vector": torch.ones(10)}
    after = {name: tensor + 1e-6 for name, tensor in before.items()}
    writer = ChangesWriter(torch.bfloat16)
    writer.write(before, tmp_path / "0")
    writer.write(after, tmp_path / "1")
    assert payload(tmp_path / "1") < 0.01 * payload(tmp_path / "0")
    got = load_file(assembled(tmp_path / "1", tmp_path / "0", tmp_path / "whole"))
    assert torch.equal(got["matrix"], after["matrix"].bfloat16())
    assert torch.equal(got["vector"], after["vector"])
    assert got["vector"].dtype == torch.float32


@pytest.fixture
def files(tmp_path):
    writer = ChangesWriter(torch.float32)
    for number in range(3):
        writer.write({"w": torch.full((3, 2), float(number))}, tmp_path / str(number))
    return tmp_path


def test_changes_meet_the_weights_they_are_changes_of_or_none(files):
    with pytest.raises(EngineError, match=r"changes since file 1, and this engine has 0: resume the run"):
        assembled(files / "2", files / "0", files / "target")
    with pytest.raises(EngineError, match=r"changes since file 0, and this engine has none"):
        assembled(files / "1", None, files / "target")
    (files / "half").write_bytes(b"half")
    with pytest.raises(EngineError, match=r"half cannot be read"):
        assembled(files / "half", files / "0", files / "target")
    assert not (files / "target").exists()


def test_changes_that_were_taken_already_are_not_taken_again(files):
    """The engine kept them and ended before it could say so: the trainer's side asks again."""
    first = assembled(files / "1", files / "0", files / "target")
    assert assembled(files / "1", first, files / "again") == first
    with safe_open(first, "pt") as tensors:
        assert tensors.metadata()["number"] == "1"
