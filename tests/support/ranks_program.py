"""Two training steps in each of several layouts of ranks, forked, so that the libraries are imported once.

    python -m tests.support.ranks_program MODEL OUT 'NAME:ranks,experts,context' …

    OUT/NAME.json            metrics of both steps
    OUT/NAME.N.safetensors   weights after step N
    OUT/NAME.checkpoint      after step 1

Step 2 starts from the checkpoint of the layout before it, the first one's from its own.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist

from lego_core.config import TrainConfig
from lego_core.training.ranks import ALONE, join_ranks
from lego_core.training.trainer import Trainer, TrainerSpec
from tests.support.samples import random_sample

# AdamW with a huge epsilon is gradient descent with momentum: weights after two updates show both
# gradients, and those of a resumed step what the optimizer remembered.
DESCENT = {"adam_eps": 1e6, "learning_rate": 1e6, "adam_betas": (0.5, 0.5), "grad_clip": 0.5}


def samples(layers):
    """Ragged, an odd number of rollouts, one of them in two branches with a common beginning."""
    made = [
        random_sample(f"r{i}", 17 + 9 * i, seed=i, advantage=(-1.0) ** i, layers=layers) for i in range(5)
    ]
    trunk, fork = made[1], random_sample("r1", 30, seed=9, advantage=-1.0, layers=layers)
    fork.ids[:20], fork.routes[:20], fork.mask[:20] = trunk.ids[:20], trunk.routes[:20], False
    return [*made, fork]


def config_of(ranks, experts, context):
    return TrainConfig(
        num_ranks=ranks,
        expert_parallel=experts,
        context_parallel=context,
        packing=True,
        activation_checkpointing=ranks != 2,
        updates_per_batch=2,
        kl_coef=0.01,
        clip_low=0.5,
        clip_high=0.5,
        micro_batch_tokens=64,
        **DESCENT,
    )


def train(model, out, name, before, rank, config):
    if torch.cuda.is_available():
        torch.cuda.set_device(rank)
    store = dist.FileStore(str(out / f"{name}.store"), config.num_ranks)
    ranks = ALONE if config.num_ranks == 1 else join_ranks(config, rank, store)
    trainer = Trainer(TrainerSpec(model_dir=model, config=config, temperature=1.0), ranks)
    batch = samples(json.loads((model / "config.json").read_text())["num_hidden_layers"])
    first = trainer.train_step(batch)
    trainer.export(out / f"{name}.1.safetensors")
    trainer.save_checkpoint(out / f"{name}.checkpoint", {})
    trainer.load_checkpoint(out / f"{before}.checkpoint")
    second = trainer.train_step(batch)
    trainer.export(out / f"{name}.2.safetensors")
    if rank == 0:
        (out / f"{name}.json").write_text(json.dumps([asdict(first), asdict(second)]))


def fork(model, out, name, before, config):
    children = []
    for rank in range(config.num_ranks):
        child = os.fork()
        if child == 0:
            train(model, out, name, before, rank, config)
            sys.stdout.flush()
            os._exit(0)
        children.append(child)
    codes = [os.waitpid(child, 0)[1] for child in children]
    assert codes == [0] * config.num_ranks, (name, codes)


def main():
    model, out = Path(sys.argv[1]), Path(sys.argv[2])
    layouts = dict(layout.split(":") for layout in sys.argv[3:])
    before = next(iter(layouts))
    for name, numbers in layouts.items():
        fork(model, out, name, before, config_of(*map(int, numbers.split(","))))
        before = name


if __name__ == "__main__":
    main()
