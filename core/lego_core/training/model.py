"""The policy as a transformers module, and its weights in checkpoint names.

transformers holds a layer's experts fused (`experts.gate_up_proj` `[E, 2I, H]`); checkpoints and
engines know them one by one. Invariant: copying `checkpoint_tensors` of a model into itself changes
nothing. Knows no optimizer and no step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from lego_harness.errors import UsageError

Policy: TypeAlias = Any
"""A transformers causal language model, whose attributes no type checker knows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ExpertNames:
    """How a family's checkpoints name what transformers holds under `.mlp`."""

    block: str
    pieces: dict[str, tuple[str, ...]]
    """Fused parameter → checkpoint matrices of one expert, in order."""


QWEN = ExpertNames(
    block=".mlp", pieces={"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}
)
MIXTRAL = ExpertNames(block=".block_sparse_moe", pieces={"gate_up_proj": ("w1", "w3"), "down_proj": ("w2",)})


def load_policy(
    model_dir: Path, *, dtype: torch.dtype, device: torch.device, experts: str = "grouped_mm"
) -> Policy:
    """The checkpoint in `model_dir`, in evaluation mode, because a policy has no dropout; raises UsageError.
    `experts` is the transformers implementation: `grouped_mm` is 3–6 times faster than the others on a CPU, `eager`
    also runs in float64."""
    try:
        model: Policy = AutoModelForCausalLM.from_pretrained(
            model_dir, dtype=dtype, experts_implementation=experts
        )
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"model {model_dir}: transformers cannot load it: {error}") from error
    return model.to(device).eval()


def own_tensors(model: Policy) -> dict[str, Tensor]:
    """transformers' name → weight, every weight once: a head that is tied to the embedding is left out."""
    tied = bool(getattr(model.config, "tie_word_embeddings", False))
    return {name: t for name, t in model.state_dict().items() if not (tied and name == "lm_head.weight")}


def checkpoint_tensors(
    model: Policy, whole: Callable[[str, Tensor], Tensor] = lambda name, tensor: tensor
) -> Iterator[tuple[str, Tensor]]:
    """`(checkpoint name, tensor)` of every weight; expert tensors are views into the fused ones. `whole`
    gathers what is sharded, on every rank in the same order."""
    names = MIXTRAL if model.config.model_type == "mixtral" else QWEN
    for name, part in own_tensors(model).items():
        tensor = whole(name, part)
        block, of_expert, fused = name.partition(".experts.")
        block = block.replace(".mlp", names.block)
        if not of_expert:
            yield block, tensor
            continue
        for index, expert in enumerate(tensor):
            pieces = expert.chunk(2) if fused == "gate_up_proj" else (expert,)
            for piece, matrix in zip(names.pieces[fused], pieces, strict=True):
                yield f"{block}.experts.{index}.{piece}.weight", matrix


@torch.no_grad()
def copy_tensors(targets: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Copy each tensor into the one of its name; raises KeyError naming a missing or surplus one."""
    if different := sorted(targets.keys() ^ tensors.keys()):
        raise KeyError(f"{len(different)} tensors are on one side only, first {different[0]}")
    for name, target in targets.items():
        target.copy_(tensors[name])


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
