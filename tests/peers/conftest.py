"""A proxy over a scripted engine, the families of chat templates, and a small model to train."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.patience import PatientEngine
from lego_harness.proxy.render import Renderer
from lego_harness.types import Budget, Sampling
from tests.support.checkpoint import VOCAB_SIZE, write_checkpoint
from tests.support.conversation import Talk
from tests.support.families import load_families
from tests.support.scripted_engine import ScriptedEngine

ROOM = 100_000
"""Tokens: nothing here ends a rollout."""
AMPLE = {
    "sampling": Sampling(seed=1, max_tokens=ROOM),
    "budget": Budget(max_turns=1000, max_tokens=10 * ROOM),
}


@pytest.fixture(scope="session")
def renderer(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return Renderer.load(write_checkpoint(tmp_path_factory.mktemp("checkpoint")), max_model_len=ROOM)


@pytest.fixture(scope="session")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Renderer]:
    return load_families(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.tiny_model import build_random_model

    return build_random_model(tmp_path_factory.mktemp("model"), hidden=32, vocab=VOCAB_SIZE)


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Callable[[ScriptedEngine], Awaitable[CaptureProxy]]]:
    """Starts a proxy over an engine that is asked again while it is away, as a worker does."""
    async with AsyncExitStack() as stack:

        async def at_once(_: float) -> None: ...

        async def start(engine: ScriptedEngine) -> CaptureProxy:
            proxy = CaptureProxy(PatientEngine(engine, sleep=at_once), engine.renderer, socket_dir=tmp_path)
            stack.push_async_callback(proxy.close)
            await proxy.start()
            return proxy

        yield start


@pytest.fixture
async def talk(serve: Any) -> AsyncIterator[Callable[[ScriptedEngine], Awaitable[Talk]]]:
    """Opens a session with ample budget over an engine and speaks to it over HTTP."""
    async with AsyncExitStack() as stack:

        async def begin(engine: ScriptedEngine) -> Talk:
            return await stack.enter_async_context(Talk.begin(await serve(engine), **AMPLE))

        yield begin
