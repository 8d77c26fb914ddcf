"""A run's checkpoint as a Hugging Face model folder: `python -m lego_core.training.export`.

    RUN/checkpoints/00012  ─▶  OUT/config.json, tokenizer files, model.safetensors, README.md

The weights are written in the dtype that the configuration names, as the model came, however the trainer held
them; optimizer and run state are left out. Invariants: OUT is there completely or not at all; the run is only read.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lego_core.store.reader import RunReader
from lego_harness.errors import InfrastructureError, LegoError, UsageError
from lego_harness.text import one_line

OURS = ("state.json", "shape.json", "random.pt", "optimizer", "model.safetensors")
"""What of a checkpoint is not copied as it is."""


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code: 0 done, 2 usage, 3 infrastructure."""
    parser = argparse.ArgumentParser(prog="lego_core.training.export")
    parser.add_argument("run", type=Path)
    parser.add_argument("--step", type=int)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args(argv)
    try:
        checkpoint = find_checkpoint(arguments.run, arguments.step)
        export_checkpoint(checkpoint, arguments.out, card=_card(arguments.run, checkpoint))
    except LegoError as error:
        sys.stderr.write(f"lego: {one_line(str(error), limit=4000)}\n")
        return error.exit_code
    sys.stdout.write(f"{one_line(str(arguments.out), limit=4000)}\n")
    return 0


def find_checkpoint(run: Path, step: int | None) -> Path:
    """The checkpoint of `step`, or the newest. Raises UsageError naming those there are."""
    reader = RunReader(run)
    reader.info()
    there = reader.layout.committed()
    found = [path for path in there if step is None or int(path.name) == step]
    if not found:
        have = ", ".join(str(int(path.name)) for path in there) or "none"
        asked = "any step" if step is None else f"step {step}"
        raise UsageError(f"{run} has no checkpoint of {asked}, there are: {have}")
    return found[-1]


def export_checkpoint(checkpoint: Path, out: Path, *, card: str) -> None:
    """Write the model folder `out`. Raises UsageError when it exists, InfrastructureError when the checkpoint
    cannot be read or `out` cannot be written."""
    if out.exists():
        raise UsageError(f"--out {out} exists already; choose a folder that does not")
    partial = out.with_name(f".{out.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for file in checkpoint.iterdir():
            if file.name not in OURS:
                shutil.copy(file, partial)
        config = json.loads((checkpoint / "config.json").read_text())
        _write_weights(checkpoint / "model.safetensors", partial / "model.safetensors", config)
        (partial / "README.md").write_text(card)
        partial.rename(out)
    except (OSError, ValueError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise InfrastructureError(
            f"exporting {checkpoint} to {out} failed: {error}; nothing of it was kept"
        ) from error


def _write_weights(source: Path, target: Path, config: dict[str, Any]) -> None:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from lego_core.weight_files import write_weights

    name = config.get("dtype") or config.get("torch_dtype") or "float32"
    dtype = getattr(torch, str(name))
    try:
        tensors = {
            key: tensor.to(dtype) if tensor.is_floating_point() else tensor
            for key, tensor in load_file(source).items()
        }
    except SafetensorError as error:
        raise ValueError(f"{source} is no whole safetensors file: {error}") from error
    write_weights(tensors, target)


def _card(run: Path, checkpoint: Path) -> str:
    reader, step = RunReader(run), int(checkpoint.name)
    recipe = reader.recipe()
    lines = [
        f"# {recipe.run.name}, step {step}",
        "",
        f"Trained with Lego-RL from `{recipe.model.path}` inside {recipe.harness.name}, {step} steps of "
        f"{recipe.rollout.groups_per_step} groups of {recipe.rollout.group_size} rollouts, seed {recipe.run.seed}.",
    ]
    for record in reader.heldout():
        if record.step <= step:
            rate = f"{100 * record.solve_rate:.0f} % of {record.n}"
            lines.append(
                f"Held-out at step {record.step}, temperature {record.temperature:g}: {rate} solved."
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
