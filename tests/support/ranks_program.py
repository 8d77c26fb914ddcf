"""One training step in each of several layouts of ranks, for `test_ranks`: forks them, prints JSON.

    python -m tests.support.ranks_program MODEL OUT 'NAME:ranks,experts,context' …

Forked, so that the libraries are imported once; each layout's weights go to OUT/NAME.safetensors.
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

# AdamW with a huge epsilon is gradient descent: weights after two updates show both gradients.
DESCENT = {"adam_eps": 1e6, "learning_rate": 1e6, "adam_betas": (0.0, 0.0), "grad_clip": 0.5}


def samples(layers):
    """Ragged, an odd number, one rollout in two branches with a common beginning."""
    made = [
        random_sample(f"r{i}", 17 + 9 * i, seed=i, advantage=(-1.0) ** i, layers=layers) for i in range(5)
    ]
    return [*made, random_sample("r4", 30, seed=4, advantage=1.0, layers=layers)]


def step(model, out, name, rank, ranks, experts, context):
    config = TrainConfig(
        num_ranks=ranks,
        expert_parallel=experts,
        context_parallel=context,
        packing=True,
        activation_checkpointing=True,
        updates_per_batch=2,
        kl_coef=0.01,
        clip_low=0.5,
        clip_high=0.5,
        micro_batch_tokens=64,
        **DESCENT,
    )
    store = dist.FileStore(str(out / f"{name}.store"), ranks)
    joined = ALONE if ranks == 1 else join_ranks(config, rank, store, torch.device("cpu"))
    spec = TrainerSpec(model_dir=model, config=config, temperature=1.0)
    trainer = Trainer(spec, joined)
    layers = json.loads((model / "config.json").read_text())["num_hidden_layers"]
    metrics = trainer.train_step(samples(layers))
    trainer.export(out / f"{name}.safetensors")
    trainer.save_checkpoint(out / f"{name}.checkpoint", {})
    again = trainer.train_step(samples(layers))
    trainer.load_checkpoint(out / f"{name}.checkpoint")
    resumed = trainer.train_step(samples(layers))
    if rank == 0:
        found = {"first": asdict(metrics), "next": again.loss, "resumed": resumed.loss}
        (out / f"{name}.json").write_text(json.dumps(found))


def main():
    model, out = Path(sys.argv[1]), Path(sys.argv[2])
    for layout in sys.argv[3:]:
        name, _, numbers = layout.partition(":")
        ranks, experts, context = map(int, numbers.split(","))
        children = []
        for rank in range(ranks):
            child = os.fork()
            if child == 0:
                step(model, out, name, rank, ranks, experts, context)
                sys.stdout.flush()
                os._exit(0)
            children.append(child)
        codes = [os.waitpid(child, 0)[1] for child in children]
        assert codes == [0] * ranks, (name, codes)


if __name__ == "__main__":
    main()
