"""Weights from the trainer straight into every engine's memory: NCCL between GPUs, gloo between CPUs.

    trainer, rank 0    ── names, types and shapes ──▶       engines, ranks 1 … n
                       ── packets of tensors ───────▶
                       ◀─ all leave together, once the trainer's file of the same weights is complete ─▶

The file is for an engine that is started again later. Each broadcast has a group of its own: an engine that was started
again takes part in the next one as any other, and nothing has to be mended. Invariant: what `receive` yields is, bit by
bit, what an engine makes of the file. A peer that dies or hangs ends the broadcast for all, in `timeout_s`: with gloo by
an EngineError; with NCCL torch's watchdog ends the process. Knows nothing of Ray and vLLM, whose own NCCL backend is not
used because it neither runs on a CPU nor reads files, as an engine's canary and restart do, and a worker has one backend.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed import Store, TCPStore  # pyright: ignore[reportPrivateImportUsage] (documented, not in __all__)

from lego_core.weight_files import engine_type, write_weights
from lego_harness.errors import EngineError

PACKET_BYTES = 2**28
"""Of tensors that are sent as one, because a model has thousands of small ones; a larger tensor is a packet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Meeting:
    """Where and how a process takes part in one broadcast; plain values."""

    host: str
    port: int
    """Of the trainer's TCPStore."""
    size: int
    """The trainer and every engine."""
    rank: int = 0
    dtype: str
    """The engines'."""
    timeout_s: float
    """For the others to come, and again for each packet."""


class Entry(NamedTuple):
    """A tensor as it is sent; its type has `torch`'s name."""

    name: str
    dtype: str
    shape: list[int]

    @property
    def numel(self) -> int:
        return torch.Size(self.shape).numel()


class WeightsSender:
    """The trainer's side: the same weights to a file, in the background, and to the engines."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._tensors: Mapping[str, Tensor] = {}
        self._written: Future[None] = Future()

    def write(self, tensors: Mapping[str, Tensor], path: Path) -> None:
        """Begin as `write_weights`, whose errors `send` raises; no tensor may be changed before `send` returned."""
        self._tensors, self._written = tensors, self._thread.submit(write_weights, tensors, path)

    def send(self, meeting: Meeting, store: Store, device: torch.device) -> None:
        """Broadcast what was written last and wait until it is on disk. Raises EngineError and OSError."""
        send(self._tensors, meeting, store, device, self._written.result)
        self._tensors = {}


def send(
    tensors: Mapping[str, Tensor],
    meeting: Meeting,
    store: Store,
    device: torch.device,
    before_leaving: Callable[[], None] = lambda: None,
) -> None:
    """Send all tensors to everybody who comes to `store`; raises EngineError and what `before_leaving` raises."""
    dtype = getattr(torch, meeting.dtype)
    entries = [Entry(name, _name(engine_type(t, dtype)), [*t.shape]) for name, t in tensors.items()]
    head = torch.frombuffer(bytearray(json.dumps(entries).encode()), dtype=torch.uint8)
    with _group(meeting, store, device) as group:
        group.broadcast(torch.tensor([head.numel()], device=device))
        group.broadcast(head.to(device))
        for packet in _packets(entries):
            parts = [tensors[e.name].to(device, getattr(torch, e.dtype)).reshape(-1) for e in packet]
            group.broadcast(torch.cat(parts))
        before_leaving()
        group.leave()


def receive(meeting: Meeting, device: torch.device) -> Generator[tuple[str, Tensor]]:
    """Every `(checkpoint name, tensor)` of `send`, on `device`; must be read to its end. Raises EngineError."""
    with _group(meeting, None, device) as group:
        length = group.broadcast(torch.zeros(1, dtype=torch.int64, device=device))
        head = group.broadcast(torch.empty(int(length), dtype=torch.uint8, device=device))
        for packet in _packets(Entry(*fields) for fields in json.loads(bytes(head.cpu().numpy()))):
            sizes, dtype = [e.numel for e in packet], getattr(torch, packet[0].dtype)
            flat = group.broadcast(torch.empty(sum(sizes), dtype=dtype, device=device))
            for entry, part in zip(packet, flat.split(sizes), strict=True):
                yield entry.name, part.view(entry.shape)
        group.leave()


def _packets(entries: Iterable[Entry]) -> Iterator[list[Entry]]:
    """Neighbours of one type, in order; the same on every rank."""
    packet: list[Entry] = []
    room = 0
    for entry in entries:
        size = entry.numel * getattr(torch, entry.dtype).itemsize
        if packet and (size > room or entry.dtype != packet[0].dtype):
            yield packet
            packet = []
        room = (room if packet else PACKET_BYTES) - size
        packet.append(entry)
    if packet:
        yield packet


class _Group:
    """All ranks of a meeting; `torch.distributed`'s own groups know nothing of it."""

    def __init__(self, backend: Any, device: torch.device) -> None:
        self._backend: Any = backend
        self._device = device

    def broadcast(self, tensor: Tensor) -> Tensor:
        """In place, as bytes: gloo does not know every type."""
        self._backend.broadcast(tensor.view(torch.uint8), 0).wait()
        return tensor

    def leave(self) -> None:
        """Nobody closes a connection on which others still read."""
        self._backend.allreduce(torch.zeros(1, device=self._device)).wait()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self._backend.shutdown()

    def close(self) -> None:
        """Gloo ends its connections with the last reference, and an error's traceback would keep that."""
        self._backend = None


@contextmanager
def _group(meeting: Meeting, store: Store | None, device: torch.device) -> Iterator[_Group]:
    """Meets the others at `store`, or at the meeting's."""
    limit = timedelta(seconds=meeting.timeout_s)
    try:
        store = store or TCPStore(meeting.host, meeting.port, is_master=False, timeout=limit)
        with closing(_Group(_backend(store, meeting, limit, device), device)) as group:
            yield group
    except RuntimeError as error:  # torch has no narrower one for what gloo says
        told = str(error).partition("\n")[0].partition(". ")[0]
        raise EngineError(
            f"the broadcast of weights broke off for rank {meeting.rank} of {meeting.size}, of which 0 is the "
            f"trainer: {told}"
        ) from error


def _backend(store: Store, meeting: Meeting, limit: timedelta, device: torch.device) -> Any:
    from torch.distributed import distributed_c10d as c10d

    if device.type != "cuda":
        return c10d.ProcessGroupGloo(store, meeting.rank, meeting.size, limit)
    options = c10d.ProcessGroupNCCL.Options()
    options._timeout = limit
    return c10d.ProcessGroupNCCL(store, meeting.rank, meeting.size, options)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
