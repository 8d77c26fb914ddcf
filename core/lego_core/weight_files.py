"""Files that bring weights from the trainer to the engines: all of them, or what changed since the last file.

    trainer   last, new ── changes ──▶ file            engine   last, file ── assembled ──▶ new

In a file of changes, a tensor that changed in few places is stored as those places and their values, one that changed
in many places is stored completely, and one that did not change is absent: such a file is never larger than all
weights. Invariant: bits are compared and values are sent, so the assembled weights are bit for bit those that a full
file would have brought.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from lego_harness.errors import EngineError

NUMBER, SINCE = "number", "since"
"""Keys of a file's metadata: which of its trainer's files it is, and since which one it holds the changes."""
AT, TO = ":at", ":to"
"""Appended to a tensor's name: `[n]` flat places, int32, and the values there."""
MOST_PLACES = 2**31 - 1
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def write_weights(
    tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Write one safetensors file; it appears completely or not at all. Raises OSError, also where the library
    raises an error of its own."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        save_file(dict(tensors), partial, metadata={"format": "pt", **(metadata or {})})
        partial.replace(path)
    except SafetensorError as error:
        raise OSError(f"{path}: {error}") from error
    finally:
        partial.unlink(missing_ok=True)


class ChangesWriter:
    """Writes all weights once, then only what changed; keeps on the CPU what it wrote last."""

    def __init__(self, dtype: torch.dtype) -> None:
        """`dtype` is the engines': a place is not sent if only what they round away changed in it."""
        self._dtype = dtype
        self._last: Mapping[str, Tensor] | None = None
        self._number = 0

    def write(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        """As `write_weights`; no tensor may be changed afterwards."""
        rounded = {name: t.to(engine_type(t, self._dtype)) for name, t in tensors.items()}
        sent, about = rounded, {NUMBER: str(self._number)}
        if self._last is not None:
            sent, about = changes(self._last, rounded), {**about, SINCE: str(self._number - 1)}
        write_weights(sent, path, about)
        self._last, self._number = rounded, self._number + 1


def changes(last: Mapping[str, Tensor], new: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a file of changes holds; `last` and `new` have the same names, shapes and types."""
    found: dict[str, Tensor] = {}
    for name, tensor in new.items():
        places = (_bits(tensor) != _bits(last[name])).nonzero()[:, 0].int()
        if (
            places.nbytes + len(places) * tensor.element_size() >= tensor.nbytes
            or tensor.numel() > MOST_PLACES
        ):
            found[name] = tensor
        elif len(places):
            found[name + AT], found[name + TO] = places, tensor.reshape(-1)[places]
    return found


def assembled(file: Path, last: Path | None, target: Path) -> Path:
    """A file with all weights: `file` itself, or, if it holds changes, `target`, which combines them with `last`.
    Raises EngineError if `file` cannot be read or holds the changes since another file than `last`."""
    about, before = _metadata(file), {} if last is None else _metadata(last)
    if SINCE not in about:
        return file
    if last is not None and before.get(NUMBER) == about[NUMBER]:
        return last  # taken already, by a process that ended before it could say so
    if last is None or before.get(NUMBER) != about[SINCE]:
        raise EngineError(
            f"weights {file} are the changes since file {about[SINCE]}, and this engine has "
            f"{before.get(NUMBER, 'none')}: resume the run"
        )
    write_weights(_applied(load_file(last), load_file(file)), target, {NUMBER: about[NUMBER]})
    return target


def _applied(tensors: dict[str, Tensor], sent: Mapping[str, Tensor]) -> dict[str, Tensor]:
    for name, value in sent.items():
        if name.endswith(TO):
            continue
        whole, of_places, _ = name.partition(AT)
        if of_places:
            tensors[whole].view(-1)[value.long()] = sent[whole + TO]
        else:
            tensors[name] = value
    return tensors


def engine_type(tensor: Tensor, dtype: torch.dtype) -> torch.dtype:
    """In which an engine of `dtype` loses nothing of a tensor that it would not lose itself. Vectors stay as they are:
    engines may hold them more precisely, and they are small."""
    return dtype if tensor.ndim > 1 and tensor.is_floating_point() else tensor.dtype


def _bits(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(_BITS[tensor.element_size()])


def _metadata(file: Path) -> dict[str, str]:
    try:
        with safe_open(file, framework="pt") as tensors:
            return tensors.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise EngineError(f"weights {file} cannot be read: {error}") from error
