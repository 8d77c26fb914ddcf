"""Trainer ranks and engines fit this machine's GPUs, and the ranks fit the model; a run would refuse them later."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground
from lego_control.validate.model import model_dir
from lego_core.model_config import read_config
from lego_core.rank_fit import gpu_share, require_ranks, visible_gpus
from lego_harness.errors import UsageError


def run(ground: Ground) -> str:
    recipe, folder, num_gpus = ground.recipe, model_dir(ground), visible_gpus()
    train, engines = recipe.train, recipe.engine.replicas + recipe.eval.engines
    config = read_config(folder) if folder and train.num_ranks > 1 else {}
    try:
        gpu_share(recipe, num_gpus)
        require_ranks(train, config, num_gpus)
    except UsageError as error:
        told, _, remedy = str(error).partition(": ")
        raise Broken(told, remedy) from None
    where = f"{num_gpus} GPUs" if num_gpus else "the CPU"
    return f"trainer ranks: {train.num_ranks}, engines: {engines}, on {where}"
