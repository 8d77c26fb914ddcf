"""Random tiny checkpoints of the families routing replay knows: no training, no tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any


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


def build_random_hybrid(
    path: Path, *, vocab: int = 512, layers: int = 4, seed: int = 0, head: int = 32, tied: bool = False
) -> Path:
    """A Qwen3.5-MoE: three layers of four mix by the gated delta rule, each has a shared expert too.

    vLLM's CPU kernels want bfloat16 and `head` 64.
    """
    from transformers import Qwen3_5MoeForCausalLM, Qwen3_5MoeTextConfig

    config = Qwen3_5MoeTextConfig(
        vocab_size=vocab,
        hidden_size=64,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        linear_num_key_heads=2,
        linear_num_value_heads=2,
        linear_key_head_dim=head,
        linear_value_head_dim=head,
        moe_intermediate_size=32,
        shared_expert_intermediate_size=32,
        num_experts=8,
        num_experts_per_tok=2,
        max_position_embeddings=8192,
        tie_word_embeddings=tied,
        initializer_range=0.1,
        eos_token_id=2,
        pad_token_id=0,
        bos_token_id=None,
    )
    return _save(Qwen3_5MoeForCausalLM, config, path, seed)


def build_random_mixtral(path: Path, *, vocab: int = 512, layers: int = 2, seed: int = 0) -> Path:
    """A Mixtral, whose checkpoints name their experts differently."""
    from transformers import MixtralConfig, MixtralForCausalLM

    config = MixtralConfig(
        vocab_size=vocab,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        num_local_experts=8,
        num_experts_per_tok=2,
        max_position_embeddings=8192,
        tie_word_embeddings=False,
        initializer_range=0.1,
        eos_token_id=2,
        pad_token_id=0,
        bos_token_id=None,
    )
    return _save(MixtralForCausalLM, config, path, seed)


def _save(family: Any, config: Any, path: Path, seed: int) -> Path:
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = family(config)
    model.save_pretrained(path)
    return path
