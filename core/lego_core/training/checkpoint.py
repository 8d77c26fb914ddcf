"""Checkpoints: a folder that is there completely or not at all.

    DIR/config.json, tokenizer files   copied from the model, so that DIR serves as a model folder
    DIR/model.safetensors              weights in checkpoint names
    DIR/optimizer/                     AdamW state, a part by each rank (torch.distributed.checkpoint)
    DIR/random.pt                      random state
    DIR/shape.json                     what a model must be like to take these weights
    DIR/state.json                     what the caller commits with it, and nothing else

The state is copied first and then written while training goes on: under a hidden name, synced to disk, then renamed.
Invariant: after any kill, DIR either does not exist or loads to exactly what was saved, on any number of ranks.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from lego_core.errors import CheckpointError
from lego_core.training.model import Policy, shape_of
from lego_core.training.ranks import ALONE, Ranks
from lego_core.training.resharding import load_weights, make_room, optimizer_entries, whole_weights
from lego_core.training.shards_reader import ShardsReader
from lego_core.weight_files import write_weights

PARTIAL = ".partial-"
SHARDS = "optimizer"
_COPIED = (".json", ".jinja", ".txt", ".model")


class Writing:
    """A checkpoint being written to disk while its trainer may go on."""

    def __init__(self, write: Callable[[], None]) -> None:
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(write,), name="checkpoint")
        self._thread.start()

    def _run(self, write: Callable[[], None]) -> None:
        try:
            write()
        except BaseException as error:  # noqa: BLE001 (`wait` raises it)
            self._failure = error

    def wait(self) -> None:
        """Until it is there; raises CheckpointError."""
        self._thread.join()
        if self._failure is not None:
            raise self._failure


def begin_checkpoint(
    directory: Path,
    model: Policy,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    *,
    model_dir: Path,
    ranks: Ranks = ALONE,
) -> Writing:
    """Copy what `directory` is to hold and begin to write it.

    All ranks take part: each writes its part of the optimizer's state, the first one everything else. Raises
    CheckpointError when it exists, and through `Writing.wait` when the disk refuses."""
    partial = directory.with_name(f"{PARTIAL}{directory.name}")
    if ranks.rank == 0:
        shutil.rmtree(partial, ignore_errors=True)
    if any(ranks.gather(directory.exists())):
        raise CheckpointError(
            f"checkpoint {directory} exists already, expected each step to be committed once"
        )
    weights = whole_weights(model, ranks)
    shards = FileSystemWriter(partial / SHARDS)
    entries = shards.stage(optimizer_entries(model, optimizer, ranks))
    random, shape = _random_state(), shape_of(model)

    def write() -> None:
        try:
            _write_shards(entries, shards, ranks)
            if ranks.rank == 0:
                _copy_files(model_dir, partial)
                write_weights(weights, partial / "model.safetensors")
                (partial / "random.pt").write_bytes(random)
                (partial / "shape.json").write_text(json.dumps(shape))
                (partial / "state.json").write_text(json.dumps(state, allow_nan=False))
                _commit(partial, directory)
        except (OSError, CheckpointException) as error:
            shutil.rmtree(partial, ignore_errors=True)
            raise CheckpointError(
                f"checkpoint {directory} could not be written: {_reason(error)}; free some space and resume"
            ) from error

    return Writing(write)


def _random_state() -> bytes:
    """As bytes, because torch does not report that the disk refused a file."""
    file = io.BytesIO()
    torch.save({"rng": torch.get_rng_state()}, file)
    return file.getvalue()


def _write_shards(entries: dict[str, Any], shards: FileSystemWriter, ranks: Ranks) -> None:
    """Write every rank's shards; on the first rank, return when all are there."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*assuming the intent is to save in a single process")
        save(entries, storage_writer=shards, process_group=ranks.writers, no_dist=ranks.size == 1)


def _commit(partial: Path, directory: Path) -> None:
    for path in [*partial.rglob("*"), partial]:
        _sync(path)
    partial.rename(directory)
    _sync(directory.parent)


def _reason(error: BaseException) -> str:
    if isinstance(error, CheckpointException):
        return "; ".join(f"rank {rank}: {one}" for rank, (one, _) in error.failures.items())
    return str(error)


def load_checkpoint(
    directory: Path, model: Policy, optimizer: torch.optim.Optimizer, ranks: Ranks = ALONE
) -> dict[str, Any]:
    """Restore model, optimizer and random state; returns the caller's state. Raises CheckpointError."""
    try:
        state = json.loads((directory / "state.json").read_text())
        shape = json.loads((directory / "shape.json").read_text())
        tensors = load_file(directory / "model.safetensors")
        random = torch.load(directory / "random.pt", weights_only=True)["rng"]
        shards = ShardsReader(directory / SHARDS)
        stored = shards.read_metadata().state_dict_metadata
    except Exception as error:  # a damaged archive raises whatever its bytes happen to mean
        raise CheckpointError(f"checkpoint {directory} cannot be read: {error}") from error
    _require_same_model(directory, shape, shape_of(model))
    load_weights(model, tensors, ranks)
    make_room(model, optimizer, stored)
    try:
        _read_shards(optimizer_entries(model, optimizer, ranks), shards, ranks)
    except CheckpointException as error:
        raise CheckpointError(f"checkpoint {directory} cannot be read: {_reason(error)}") from error
    torch.set_rng_state(random)
    return state


def _read_shards(entries: dict[str, Any], shards: ShardsReader, ranks: Ranks) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*assuming the intent is to load in a single process")
        load(entries, storage_reader=shards, process_group=ranks.writers, no_dist=ranks.size == 1)


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
