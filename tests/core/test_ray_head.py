"""A run is ended when its Ray cluster's head is gone, and not when it is only slow."""

from __future__ import annotations

import asyncio

import pytest

from lego_core import ray_head
from lego_core.ray_head import while_head_answers
from lego_harness.errors import InfrastructureError


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_head, "LOOK_EVERY_S", 0.01)


async def test_a_head_that_ends_cancels_the_body_and_is_named(unused_tcp_port: int) -> None:
    server = await asyncio.start_server(_accept, "127.0.0.1", unused_tcp_port)
    ended = []

    async def run() -> None:
        async with while_head_answers(f"127.0.0.1:{unused_tcp_port}"):
            server.close()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("body")

    with pytest.raises(InfrastructureError, match=rf"Ray cluster at 127\.0\.0\.1:{unused_tcp_port} ended"):
        await run()
    assert ended == ["body"]


async def test_a_body_ends_in_its_own_way_while_the_head_answers(unused_tcp_port: int) -> None:
    async with await asyncio.start_server(_accept, "127.0.0.1", unused_tcp_port):
        async with while_head_answers(f"127.0.0.1:{unused_tcp_port}"):
            await asyncio.sleep(0)
        with pytest.raises(KeyError, match="its own"):
            await _fail(f"127.0.0.1:{unused_tcp_port}")


async def _fail(address: str) -> None:
    async with while_head_answers(address):
        raise KeyError("its own")


async def test_a_head_that_misses_some_looks_is_not_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, all_seen = iter([False] * (ray_head.PATIENCE - 1) + [True, False, True]), asyncio.Event()

    async def _listens(address: str) -> bool:
        answer = next(looks, None)
        if answer is None:
            all_seen.set()
        return answer is not False

    monkeypatch.setattr(ray_head, "_listens", _listens)
    async with while_head_answers("127.0.0.1:1"):
        await all_seen.wait()


async def _accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()
