"""A broadcast brings what a file would bring, or fails for everybody in bounded time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage] (documented, not in __all__)

from lego_core import weight_broadcast
from lego_core.weight_broadcast import Meeting, WeightsSender, receive, send
from lego_harness.errors import EngineError

CPU = torch.device("cpu")
LONG_S, SHORT_S = 600.0, 0.5


def _meet(num_engines: int, timeout_s: float = LONG_S, dtype: str = "bfloat16") -> tuple[TCPStore, Meeting]:
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    meeting = Meeting(
        host="127.0.0.1", port=store.port, size=1 + num_engines, dtype=dtype, timeout_s=timeout_s
    )
    return store, meeting


def _tensors() -> dict[str, Tensor]:
    """Of several types, with an odd number of elements before a wider one."""
    random = torch.Generator().manual_seed(0)
    return {
        "a.matrix": torch.randn(3, 5, generator=random),
        "a.norm": torch.randn(7, generator=random),
        "b.matrix": torch.randn(5, 3, 1, generator=random),
        "b.half": torch.randn(3, generator=random).bfloat16(),
        "c.scalar": torch.tensor(1.0000001),
        "c.count": torch.arange(4),
        "d.empty": torch.empty(0, 2),
    }


@pytest.mark.parametrize("packet_bytes", [1, 30, 2**28])
def test_every_engine_gets_bit_by_bit_what_it_would_make_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packet_bytes: int
) -> None:
    monkeypatch.setattr(weight_broadcast, "PACKET_BYTES", packet_bytes)
    store, meeting = _meet(2)
    sender = WeightsSender()
    sender.write(_tensors(), tmp_path / "w")
    sent, *received = _side_by_side(
        lambda: sender.send(meeting, store, CPU),
        *(lambda rank=rank: list(receive(replace(meeting, rank=rank), CPU)) for rank in (1, 2)),
    )
    sent.result()
    file = load_file(tmp_path / "w")
    for got in map(dict, (future.result() for future in received)):
        assert list(got) == list(_tensors())
        for name, tensor in file.items():
            assert got[name].dtype == (torch.bfloat16 if tensor.ndim > 1 else tensor.dtype)
            assert torch.equal(got[name], tensor.to(got[name].dtype))


def test_engines_leave_when_the_file_is_complete_and_no_sooner(tmp_path: Path) -> None:
    """Else one that is started again then would come back with older weights."""
    store, meeting = _meet(1)
    sender = WeightsSender()
    sender.write(_tensors(), tmp_path / "no folder" / "w")
    sent, received = _side_by_side(
        lambda: sender.send(meeting, store, CPU), lambda: list(receive(replace(meeting, rank=1), CPU))
    )
    with pytest.raises(OSError, match="no folder"):
        sent.result()
    with pytest.raises(EngineError, match="the broadcast of weights broke off for rank 1 of 2"):
        received.result()


def test_a_peer_that_never_comes_is_waited_for_as_long_as_it_may_take() -> None:
    store, meeting = _meet(2, SHORT_S)
    sent, received = _side_by_side(
        lambda: send(_tensors(), meeting, store, CPU), lambda: list(receive(replace(meeting, rank=1), CPU))
    )
    for rank, end in enumerate((sent, received)):
        with pytest.raises(EngineError, match=f"broke off for rank {rank} of 3, of which 0 is the trainer: "):
            end.result()


def test_a_trainer_that_is_gone_ends_the_wait_of_an_engine() -> None:
    store, meeting = _meet(1, SHORT_S)
    del store
    with pytest.raises(EngineError, match="rank 1 of 2"):
        list(receive(replace(meeting, rank=1), CPU))


def test_an_engine_that_dies_while_it_receives_ends_the_broadcast() -> None:
    store, meeting = _meet(1)

    def die() -> None:
        tensors = receive(replace(meeting, rank=1), CPU)
        next(tensors)
        tensors.close()

    sent, died = _side_by_side(lambda: send(_tensors(), meeting, store, CPU), die)
    died.result()
    with pytest.raises(EngineError, match="rank 0 of 2"):
        sent.result()


def _side_by_side(*parts: Callable[[], Any]) -> list[Future[Any]]:
    with ThreadPoolExecutor(len(parts)) as pool:
        return [pool.submit(part) for part in parts]
