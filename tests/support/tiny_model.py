"""A random tiny Qwen3-MoE checkpoint: no training, no tokenizer, a second to build."""

from __future__ import annotations

from pathlib import Path


def build_random_model(
    path: Path,
    *,
    vocab: int = 512,
    layers: int = 2,
    hidden: int = 64,
    experts: int = 8,
    init_std: float = 0.05,
    seed: int = 0,
    dtype: str = "float32",
) -> Path:
    """Write config.json and model.safetensors into `path`; returns it.

    `init_std` 0.25 makes a peaky policy, in which a wrong route shows strongly.
    """
    import torch
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    config = Qwen3MoeConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        moe_intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        num_experts=experts,
        num_experts_per_tok=2,
        norm_topk_prob=True,
        decoder_sparse_step=1,
        mlp_only_layers=[],
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        initializer_range=init_std,
        eos_token_id=2,
        pad_token_id=0,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3MoeForCausalLM(config).to(getattr(torch, dtype))
    model.save_pretrained(path)
    return path
