"""The tiny policy's network: a Qwen3 mixture of experts of about one million parameters.

Owns its shape. Hidden and expert sizes are multiples of 32 and the head size is 32, which vLLM's
CPU kernels need. Does not train it.
"""

from __future__ import annotations

import torch
from transformers import PreTrainedTokenizerFast, Qwen3MoeConfig, Qwen3MoeForCausalLM


def tiny_config(tokenizer: PreTrainedTokenizerFast) -> Qwen3MoeConfig:
    """The configuration for a tokenizer's vocabulary."""
    return Qwen3MoeConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=256,
        moe_intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,  # pyright: ignore[reportCallIssue]  # read by the base class, not declared
        num_experts=8,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        mlp_only_layers=[],
        max_position_embeddings=32_768,
        tie_word_embeddings=False,
        initializer_range=0.05,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )


def new_model(tokenizer: PreTrainedTokenizerFast, *, seed: int) -> Qwen3MoeForCausalLM:
    """Random weights in float32; the global generator is left as it was."""
    config = tiny_config(tokenizer)
    config._experts_implementation = "grouped_mm"
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = Qwen3MoeForCausalLM(config).float()
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model
