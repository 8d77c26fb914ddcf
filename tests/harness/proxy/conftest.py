"""A running proxy over a scripted engine, and one renderer for all tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.session import Session
from lego_harness.types import Budget, Sampling
from tests.support.checkpoint import write_checkpoint
from tests.support.conversation import Talk
from tests.support.scripted_engine import ScriptedEngine

Serve = Callable[[ScriptedEngine], Awaitable[CaptureProxy]]


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def renderer(model_dir: Path) -> Renderer:
    return Renderer.load(model_dir, max_model_len=4096)


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Serve]:
    """Starts a proxy over an engine; it is closed after the test."""
    async with AsyncExitStack() as stack:

        async def start(engine: ScriptedEngine) -> CaptureProxy:
            proxy = CaptureProxy(engine, engine.renderer, socket_dir=tmp_path)
            stack.push_async_callback(proxy.close)
            await proxy.start()
            return proxy

        yield start


@pytest.fixture
async def talk(serve: Serve) -> AsyncIterator[Callable[..., Awaitable[Talk]]]:
    """Opens a session over an engine and speaks to it over HTTP."""
    async with AsyncExitStack() as stack:

        async def begin(engine: ScriptedEngine, **options: object) -> Talk:
            proxy = await serve(engine)
            return await stack.enter_async_context(Talk.begin(proxy, **options))

        yield begin


@pytest.fixture
def session(renderer: Renderer, serve: Serve) -> Callable[..., Awaitable[Session]]:
    """Opens a session whose engine says the given steps, for a client to speak to."""

    async def open_session(*steps: Any) -> Session:
        proxy = await serve(ScriptedEngine(renderer, steps))
        return proxy.open_session("r", Sampling(seed=1, max_tokens=400), Budget())

    return open_session
