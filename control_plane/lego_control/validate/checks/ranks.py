"""The trainer's ranks fit the GPUs of this machine and the model: more of them would wait, or be refused, later."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground
from lego_control.validate.model import model_dir
from lego_core.rank_fit import require_ranks, visible_gpus
from lego_core.simulation.capacity import read_config
from lego_harness.errors import UsageError


def run(ground: Ground) -> str:
    train, folder, num_gpus = ground.recipe.train, model_dir(ground), visible_gpus()
    if train.num_ranks == 1:
        return "one rank"
    config = read_config(folder) if folder else {}
    try:
        require_ranks(train, config, num_gpus)
    except UsageError as error:
        told, _, remedy = str(error).partition(": ")
        raise Broken(told, remedy) from None
    return f"{train.num_ranks} ranks on {f'{num_gpus} GPUs' if num_gpus else 'the CPU'}"
