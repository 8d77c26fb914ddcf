"""Whether a run's processes fit its model and machine, before anything is started.

    no GPU      all of them compute on the CPU
    one         all of them share it, if the trainer is one rank
    several     each trainer rank and each engine has one of its own

Owns the refusals that the run, its trainer and `lego validate` share. Free of torch and ray; knows nothing of
how ranks work.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from lego_core.config import Recipe, TrainConfig
from lego_harness.errors import UsageError

DRIVER = Path("/proc/driver/nvidia/gpus")
_RAYS_UNIT = 10_000
"""Ray counts in fractions with this denominator."""
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""The keys under which model families give the number of experts of a layer in config.json."""


def require_ranks(config: TrainConfig, model: Mapping[str, Any], num_gpus: int) -> None:
    """Raise UsageError if `config` asks for more than the machine has, or for parts that the model cannot be cut
    into. `model` is the text part of its config.json; what that does not say is left to the model itself."""
    require_gpus(config.num_ranks, num_gpus)
    if config.expert_parallel > 1:
        experts = next((model[key] for key in EXPERTS if model.get(key)), 0)
        require_experts(experts, config.expert_parallel)
    heads = model.get("num_attention_heads")
    if config.context_parallel > 1 and heads:
        require_heads(heads, model.get("num_key_value_heads") or heads, config.context_parallel)


def gpu_share(recipe: Recipe, num_gpus: int) -> float:
    """GPUs for each trainer rank and each engine: 1, a fraction of the only one, or 0 on a CPU. Raises UsageError
    if there are too few, because processes that ask for none would all take the first, and if they share the only one
    and weights are broadcast."""
    ranks, engines = recipe.train.num_ranks, recipe.engine.replicas + recipe.eval.engines
    if num_gpus == ranks == 1:
        _require_no_broadcast(recipe)
        return math.floor(_RAYS_UNIT / (1 + engines)) / _RAYS_UNIT
    if 0 < num_gpus < ranks + engines:
        raise UsageError(
            f"train.num_ranks = {ranks}, engine.replicas = {recipe.engine.replicas} and eval.engines = "
            f"{recipe.eval.engines} take {ranks + engines} GPUs, one each, and {num_gpus} can be used here: "
            "lower them, or give the run more; one rank shares a single GPU with its engines"
        )
    return float(num_gpus > 0)


def _require_no_broadcast(recipe: Recipe) -> None:
    if recipe.engine.weight_transfer == "broadcast":
        raise UsageError(
            'engine.weight_transfer = "broadcast" between GPUs goes over NCCL, which cannot have two processes on one '
            'GPU, and here trainer and engines share the only one: set it to "file", or give each a GPU'
        )


def require_gpus(num_ranks: int, num_gpus: int) -> None:
    """Several ranks have a GPU each if there are any; otherwise all of them compute on the CPU."""
    if num_ranks > 1 and 0 < num_gpus < num_ranks:
        raise UsageError(
            f"train.num_ranks = {num_ranks} takes as many GPUs, and {num_gpus} can be used here: "
            f"set it to {num_gpus} or less, or give the run more"
        )


def require_experts(num_experts: int, ranks: int) -> None:
    """Each of `ranks` holds equally many of a layer's experts."""
    if num_experts == 0 or num_experts % ranks:
        raise UsageError(
            f"the model has {num_experts} experts a layer, expected a multiple of train.expert_parallel = {ranks}: "
            "set that to a divisor, 1 for a dense model"
        )


def require_heads(heads: int, key_heads: int, ranks: int) -> None:
    """Each of `ranks` computes equally many of the attention heads, with the key heads that go with them."""
    if heads % ranks or (key_heads % ranks and ranks % key_heads):
        raise UsageError(
            f"the model's {heads} attention heads, {key_heads} for keys, cannot be shared by "
            f"train.context_parallel = {ranks} ranks: set that to a divisor of both, or to a multiple of the "
            "second that divides the first"
        )


def visible_gpus() -> int:
    """GPUs that the driver shows on this machine, or as many as `CUDA_VISIBLE_DEVICES` names: none after a `-1`, as
    CUDA reads it."""
    there = len(list(DRIVER.glob("*")))
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return there
    names = takewhile(lambda name: name and not name.startswith("-"), map(str.strip, chosen.split(",")))
    return min(there, len(list(names)))
