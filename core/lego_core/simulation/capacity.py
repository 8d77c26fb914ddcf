"""What a model costs on GPUs: memory and time, from its configuration and a few published figures.

Arithmetic, not measurement: every assumption is a named constant below. Knows the configurations of Qwen3-MoE,
Qwen3.5-MoE and dense models; counts what is large and leaves out what is not (norms, biases,
convolutions). Free of torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lego_harness.errors import UsageError


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """A GPU by its data sheet."""

    memory_gb: float
    fp32_tflops: float
    """Without TF32 or other tensor-core formats: the precision in which the trainer computes."""
    bandwidth_tb_s: float


GPUS = {
    "a100": Gpu(memory_gb=80, fp32_tflops=19.5, bandwidth_tb_s=2.0),
    "h100": Gpu(memory_gb=80, fp32_tflops=67, bandwidth_tb_s=3.35),
    "h200": Gpu(memory_gb=141, fp32_tflops=67, bandwidth_tb_s=4.8),
    "b200": Gpu(memory_gb=192, fp32_tflops=75, bandwidth_tb_s=8.0),
}

TRAINER_BYTES_PER_WEIGHT = 4 + 4 + 8 + 4
"""Weights, gradient, two Adam moments, frozen reference, all fp32."""
ENGINE_BYTES_PER_WEIGHT = {"bfloat16": 2, "float32": 4}
TRAINER_FLOPS_PER_TOKEN = 2 + 2 + 6
"""Times active weights: a reference pass, the recomputed forward of checkpointing, forward and backward."""
TRAINER_UTILISATION = 0.35
"""Of the peak; what mixture-of-experts training reports on long packed sequences."""
ENGINE_BANDWIDTH_SHARE = 0.5
"""Of the peak, in decoding."""
MEMORY_SHARE = 0.9
"""Of a GPU that may be planned for."""
STATE_SHARE, WEIGHTS_SHARE = 0.7, 0.8
"""Shares of usable memory: of a trainer GPU for its state (the rest is for activations), and of an engine GPU for
its weights (the rest is its cache)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSize:
    """A model in numbers."""

    weights: float
    active: float
    """Weights that one token goes through, without the embedding."""
    kv_bytes_per_token: float
    """bf16, over the layers with a key-value cache."""


QWEN35_35B_A3B: dict[str, Any] = {
    "num_hidden_layers": 40,
    "full_attention_interval": 4,
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "vocab_size": 248_320,
    "tie_word_embeddings": False,
}
"""The paper's model, for plans without a checkpoint at hand."""


def model_size(config: dict[str, Any]) -> ModelSize:
    """Count a model; raises UsageError naming what the configuration lacks."""
    try:
        return _count(config)
    except KeyError as error:
        raise UsageError(
            f"config.json has no {error.args[0]}, expected a decoder such as Qwen3-MoE"
        ) from error


def _count(c: dict[str, Any]) -> ModelSize:
    layers, hidden, heads = c["num_hidden_layers"], c["hidden_size"], c["num_attention_heads"]
    head_dim = c.get("head_dim") or hidden // heads
    kv_heads = c.get("num_key_value_heads", heads)
    attention = hidden * head_dim * (2 * heads + 2 * kv_heads)
    experts = c.get("num_experts", 0)
    if experts:
        expert = 3 * hidden * c["moe_intermediate_size"]
        shared = 3 * hidden * c.get("shared_expert_intermediate_size", 0) + hidden * experts
        mlp, active_mlp = experts * expert + shared, c["num_experts_per_tok"] * expert + shared
    else:
        mlp = active_mlp = 3 * hidden * c["intermediate_size"]
    embedding = c["vocab_size"] * hidden
    tables = 1 if c.get("tie_word_embeddings") else 2
    cached = layers // c.get("full_attention_interval", 1)
    return ModelSize(
        weights=layers * (attention + mlp) + tables * embedding,
        active=layers * (attention + active_mlp) + embedding,
        kv_bytes_per_token=cached * 2 * kv_heads * head_dim * 2,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """How GPUs are shared between trainer and engines, and what each side then does."""

    trainer_gpus: int
    engine_gpus: int
    trainer_gb: float
    """Weights, optimizer and reference, of one trainer GPU."""
    engine_gb: float
    """Weights of one engine GPU; the rest is its cache."""
    cached_tokens: int
    """Tokens that all engines together can hold in their caches."""
    train_s: float
    """One step."""
    tokens_per_s: float
    """Of all engines together, decoding with full caches."""
    publish_s: float


def plan_capacity(
    size: ModelSize,
    gpu: Gpu,
    num_gpus: int,
    *,
    tokens_per_step: float,
    context: float,
    engine_dtype: str = "bfloat16",
) -> Capacity:
    """Half of the GPUs train, or as many as the trainer's state needs, and each other one is an engine; raises
    UsageError where it does not fit. `tokens_per_step` are all positions the trainer computes, `context` the mean
    length of a call."""
    usable = gpu.memory_gb * MEMORY_SHARE
    state_gb = size.weights * TRAINER_BYTES_PER_WEIGHT / 1e9
    needed = int(-(-state_gb // (STATE_SHARE * usable)))
    trainer = max(needed, num_gpus // 2, 1)
    width = ENGINE_BYTES_PER_WEIGHT[engine_dtype]
    weights_gb, kv_bytes = size.weights * width / 1e9, size.kv_bytes_per_token * width / 2
    if weights_gb > WEIGHTS_SHARE * usable:
        raise UsageError(
            f"an engine holds the whole model on one GPU, {weights_gb:.0f} GB of {engine_dtype} weights, and one of "
            f"{gpu.memory_gb:g} GB has room for {WEIGHTS_SHARE * usable:.0f}: plan with a larger GPU or a smaller "
            "model; engines are not spread over several"
        )
    engines = num_gpus - trainer
    if engines < 1:
        raise UsageError(
            f"{num_gpus} GPUs of {gpu.memory_gb:g} GB: training needs {needed} for {state_gb:.0f} GB of state and "
            f"an engine 1 for {weights_gb:.0f} GB of weights, expected at least {needed + 1}"
        )
    cached = engines * (usable - weights_gb) * 1e9 / kv_bytes
    flops = tokens_per_step * size.active * TRAINER_FLOPS_PER_TOKEN
    return Capacity(
        trainer_gpus=trainer,
        engine_gpus=engines,
        trainer_gb=state_gb / trainer,
        engine_gb=weights_gb,
        cached_tokens=int(cached),
        train_s=flops / (trainer * gpu.fp32_tflops * 1e12 * TRAINER_UTILISATION),
        tokens_per_s=_decode_rate(gpu, engines, weights_gb * 1e9, kv_bytes, cached, context),
        publish_s=weights_gb / (engines * 25),  # 25 GB/s into each GPU
    )


def _decode_rate(
    gpu: Gpu, engines: int, weight_bytes: float, kv_bytes: float, cached: float, context: float
) -> float:
    """Every step of an engine reads its weights and the caches of all its sequences."""
    sequences = cached / context
    read = engines * weight_bytes + sequences * context * kv_bytes
    return sequences * engines * gpu.bandwidth_tb_s * 1e12 * ENGINE_BANDWIDTH_SHARE / read
