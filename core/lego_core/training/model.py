"""The policy as a transformers module, and its weights in checkpoint names.

transformers holds a layer's experts fused (`experts.gate_up_proj` `[E, 2I, H]`); checkpoints and
engines know them one by one. Invariant: `load_tensors(model, checkpoint_tensors(model))` changes
nothing. Knows no optimizer and no step.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from lego_harness.errors import UsageError

Policy: TypeAlias = Any
"""A transformers causal language model, whose attributes no type checker knows."""


def load_policy(
    model_dir: Path, *, dtype: torch.dtype, device: torch.device, experts: str = "grouped_mm"
) -> Policy:
    """The checkpoint in `model_dir`, in evaluation mode: a policy has no dropout; raises UsageError.

    `experts` is transformers' implementation: `grouped_mm` is 3–6 times faster than the others on
    a CPU, `eager` also runs in float64.
    """
    try:
        model: Policy = AutoModelForCausalLM.from_pretrained(
            model_dir, dtype=dtype, experts_implementation=experts
        )
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"model {model_dir}: transformers cannot load it: {error}") from error
    return model.to(device).eval()


def checkpoint_tensors(model: Policy) -> Iterator[tuple[str, Tensor]]:
    """`(checkpoint name, tensor)` of every weight; expert tensors are views into the fused ones."""
    tied = bool(getattr(model.config, "tie_word_embeddings", False))
    for name, tensor in model.state_dict().items():
        if name.endswith(".experts.gate_up_proj"):
            layer = name.removesuffix(".gate_up_proj")
            for index, expert in enumerate(tensor):
                gate, up = expert.chunk(2)
                yield f"{layer}.{index}.gate_proj.weight", gate
                yield f"{layer}.{index}.up_proj.weight", up
        elif name.endswith(".experts.down_proj"):
            layer = name.removesuffix(".down_proj")
            for index, expert in enumerate(tensor):
                yield f"{layer}.{index}.down_proj.weight", expert
        elif not (tied and name == "lm_head.weight"):
            yield name, tensor


@torch.no_grad()
def load_tensors(model: Policy, tensors: Mapping[str, Tensor]) -> None:
    """Copy checkpoint tensors into the model; raises KeyError naming a missing or surplus one."""
    targets = dict(checkpoint_tensors(model))
    if different := sorted(targets.keys() ^ tensors.keys()):
        raise KeyError(f"{len(different)} tensors are on one side only, first {different[0]}")
    for name, target in targets.items():
        target.copy_(tensors[name])


def write_weights(model: Policy, path: Path) -> None:
    """Write one safetensors file in checkpoint names; it appears whole or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in checkpoint_tensors(model)}
    try:
        save_file(tensors, partial, metadata={"format": "pt"})
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def shape_of(model: Policy) -> dict[str, Any]:
    """What makes two checkpoints interchangeable: the configuration without names and versions."""
    skipped = {
        "_name_or_path",
        "transformers_version",
        "dtype",
        "torch_dtype",
        "use_cache",
        "initializer_range",
    }
    config: dict[str, Any] = model.config.to_dict()
    return {k: v for k, v in sorted(config.items()) if k not in skipped and not k.startswith("_")}
