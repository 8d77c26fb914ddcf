"""Checkpoints: a folder that is there whole or not at all.

    DIR/config.json, tokenizer files   copied from the model, so that DIR serves as a model folder
    DIR/model.safetensors              weights in checkpoint names
    DIR/optimizer.pt                   AdamW state, random state
    DIR/shape.json                     what a model must be like to take these weights
    DIR/state.json                     what the caller commits with it, and nothing else

Written under a hidden name, synced to disk, then renamed. Invariant: at any kill, DIR either does
not exist or loads to exactly what was saved.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from lego_core.errors import CheckpointError
from lego_core.training.model import Policy, shape_of
from lego_core.training.ranks import ALONE, Ranks
from lego_core.training.resharding import (
    load_optimizer_state,
    load_weights,
    whole_optimizer_state,
    whole_weights,
)
from lego_core.weight_files import write_weights

PARTIAL = ".partial-"
_COPIED = (".json", ".jinja", ".txt", ".model")


def save_checkpoint(
    directory: Path,
    model: Policy,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    *,
    model_dir: Path,
    ranks: Ranks = ALONE,
) -> None:
    """Write `directory`; raises CheckpointError when it exists or the disk refuses. Of several ranks all
    take part and the first one writes."""
    weights = whole_weights(model, ranks)
    optimizer_state = whole_optimizer_state(model, optimizer, ranks)
    if ranks.rank > 0:
        return
    if directory.exists():
        raise CheckpointError(
            f"checkpoint {directory} exists already, expected each step to be committed once"
        )
    partial = directory.with_name(f"{PARTIAL}{directory.name}")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        _copy_files(model_dir, partial)
        write_weights(weights, partial / "model.safetensors")
        torch.save({"optimizer": optimizer_state, "rng": torch.get_rng_state()}, partial / "optimizer.pt")
        (partial / "shape.json").write_text(json.dumps(shape_of(model)))
        (partial / "state.json").write_text(json.dumps(state, allow_nan=False))
        for path in [*partial.iterdir(), partial]:
            _sync(path)
        partial.rename(directory)
        _sync(directory.parent)
    except OSError as error:
        shutil.rmtree(partial, ignore_errors=True)
        raise CheckpointError(
            f"checkpoint {directory} could not be written: {error}; free some space and resume"
        ) from error


def load_checkpoint(
    directory: Path, model: Policy, optimizer: torch.optim.Optimizer, ranks: Ranks = ALONE
) -> dict[str, Any]:
    """Restore model, optimizer and random state; the caller's state. Raises CheckpointError."""
    try:
        state = json.loads((directory / "state.json").read_text())
        shape = json.loads((directory / "shape.json").read_text())
        tensors = load_file(directory / "model.safetensors")
        # Ranks of one machine share what they read of a file that each needs a part of.
        mapped = ranks.size > 1
        extra = torch.load(directory / "optimizer.pt", weights_only=True, map_location="cpu", mmap=mapped)
    except Exception as error:  # a damaged archive raises whatever its bytes happen to mean
        raise CheckpointError(f"checkpoint {directory} cannot be read: {error}") from error
    _require_same_model(directory, shape, shape_of(model))
    load_weights(model, tensors, ranks)
    load_optimizer_state(model, optimizer, extra["optimizer"], ranks)
    torch.set_rng_state(extra["rng"])
    return state


def _copy_files(model_dir: Path, folder: Path) -> None:
    for file in model_dir.iterdir():
        if file.suffix in _COPIED and not file.name.endswith(".index.json"):
            shutil.copy(file, folder)


def _require_same_model(directory: Path, stored: dict[str, Any], expected: dict[str, Any]) -> None:
    expected = json.loads(json.dumps(expected))
    for key in sorted(stored.keys() | expected.keys()):
        if stored.get(key) != expected.get(key):
            raise CheckpointError(
                f"checkpoint {directory} is of another model: its {key} is {stored.get(key)!r}, "
                f"expected {expected.get(key)!r}"
            )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
