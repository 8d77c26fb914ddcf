"""Routing rows wait on disk for the end of their rollout, and come back as they went."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lego_harness.errors import EngineError
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.route_log import RouteLog
from lego_harness.types import GenerateRequest, Generation, StopReason
from tests.support.conversation import Talk
from tests.support.scripted_engine import ScriptedEngine, say

Begin = Callable[..., Awaitable[Talk]]
Serve = Callable[[ScriptedEngine], Awaitable[CaptureProxy]]
LS = say("Look.", ("bash", {"command": "ls"}))
ROWS = st.sampled_from([np.int8, np.int16]).flatmap(
    lambda dtype: st.lists(
        arrays.arrays(dtype, st.tuples(st.integers(1, 9), st.just(3), st.just(2))), max_size=5
    )
)


def files(folder: Path) -> list[Path]:
    """What lies in the proxy's folder beside its socket."""
    return [path for path in folder.iterdir() if path.name != "proxy.sock"]


@given(blocks=ROWS, num_kept=st.integers(1, 9))
def test_rows_come_back_as_they_went(
    blocks: list[Any], num_kept: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("log")
    log = RouteLog(folder / "rows")
    logged = [log.append(rows[:, ::-1]) for rows in blocks]
    data = log.close()
    for rows, block in zip(blocks, logged, strict=True):
        assert np.array_equal(block.of(data), rows[:, ::-1])
        assert block.of(data).dtype == rows.dtype
        assert np.array_equal(block.first(num_kept).of(data), rows[:num_kept, ::-1])
    assert not files(folder)


async def test_rows_lie_in_a_file_of_their_session_until_it_closes(
    serve: Serve, renderer: Renderer, tmp_path: Path
) -> None:
    proxy = await serve(ScriptedEngine(renderer, [LS, LS, LS]))
    async with Talk.begin(proxy) as first, Talk.begin(proxy) as second:
        assert not files(tmp_path)
        for t in (first, second, first):
            await t.tool_turn()
    assert len(files(tmp_path)) == 2
    capture = first.session.close()
    assert len(files(tmp_path)) == 1
    assert [len(turn.routes) for turn in capture.turns if turn.routes is not None] == [
        len(turn.context_ids) + len(turn.sampled_ids) - 1 - turn.routes_from for turn in capture.turns
    ]
    second.session.close()
    assert not files(tmp_path)


async def test_forks_share_the_rows_of_what_they_share(talk: Begin, renderer: Renderer) -> None:
    t = await talk(ScriptedEngine(renderer, [LS, LS, LS]))
    await t.tool_turn()
    await t.tool_turn()
    del t.messages[-2:]
    t.messages.append({"role": "user", "content": "Otherwise."})
    await t.turn()
    capture = t.session.close()
    one, other = (branch.routes for branch in capture.branches)
    assert one is not None
    assert other is not None
    num_shared = capture.turns[1].routes_from
    assert np.array_equal(one[:num_shared], other[:num_shared])
    assert not np.array_equal(one[num_shared : num_shared + 5], other[num_shared : num_shared + 5])


async def test_a_closed_proxy_leaves_no_rows_and_no_less_of_the_record(
    serve: Serve, renderer: Renderer, tmp_path: Path
) -> None:
    proxy = await serve(ScriptedEngine(renderer, [LS]))
    async with Talk.begin(proxy) as t:
        await t.tool_turn()
    await proxy.close()
    assert not files(tmp_path)
    capture = t.session.close()
    assert capture.stop is StopReason.CANCELLED
    assert capture.branches[0].routes is not None


async def test_rows_that_cannot_be_written_end_the_rollout_as_a_failure(
    talk: Begin, renderer: Renderer, tmp_path: Path
) -> None:
    def answer(request: GenerateRequest) -> Generation:
        shutil.rmtree(tmp_path)
        return engine.generation(request, renderer.encode_assistant(LS))

    engine = ScriptedEngine(renderer, [answer])
    t = await talk(engine)
    status, refusal = await t.post()
    assert (status, refusal["error"]["type"]) == (400, "invalid_request_error")
    assert t.session.ended.is_set()
    capture = t.session.close()
    assert (capture.stop, capture.turns) == (StopReason.FAILED_ENGINE, ())
    assert capture.error.startswith(f"routing rows cannot be kept in {tmp_path} (No such file or directory)")


def test_a_full_disk_is_named() -> None:
    log = RouteLog(Path("/dev/full"))
    with pytest.raises(EngineError, match="No space left on device"):
        log.append(np.zeros((1, 2, 2), np.int8))


@pytest.mark.parametrize("loss", ["gone", "cut", "grown"])
async def test_rows_that_were_lost_are_no_missing_routes_but_a_failure(
    loss: str, talk: Begin, renderer: Renderer, tmp_path: Path
) -> None:
    t = await talk(ScriptedEngine(renderer, [LS]))
    await t.tool_turn()
    (path,) = files(tmp_path)
    if loss == "gone":
        path.unlink()
    else:
        rows = path.read_bytes()
        path.write_bytes(rows[:-1] if loss == "cut" else rows + b"x")
    capture = t.session.close()
    assert capture.stop is StopReason.FAILED_ENGINE
    assert capture.error.startswith("routing rows")
    assert [turn.routes for turn in capture.turns] == [branch.routes for branch in capture.branches] == [None]


async def test_rows_never_follow_those_that_somebody_removed(
    talk: Begin, renderer: Renderer, tmp_path: Path
) -> None:
    t = await talk(ScriptedEngine(renderer, [LS, LS]))
    await t.tool_turn()
    files(tmp_path)[0].unlink()
    assert (await t.post())[0] == 400
    capture = t.session.close()
    assert capture.stop is StopReason.FAILED_ENGINE
    assert "has 0 bytes, expected" in capture.error
    assert len(capture.turns) == 1
