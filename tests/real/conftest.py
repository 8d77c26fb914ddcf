"""The harness of a test module, started once: its start-up costs seconds."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from lego_harness.adapters.install import CLAUDE_CODE, CODEX, MINI_SWE, OPENCODE, OPENHANDS, install
from tests.support.processes import descendants, left_running
from tests.support.real_rollout import Worker, open_worker

PINNED = {harness.name: harness for harness in (MINI_SWE, CLAUDE_CODE, OPENCODE, CODEX, OPENHANDS)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Worker]:
    """A worker of `(harness, backend)`, the fixture's parameter, or of the module's `HARNESS` in bubblewrap,
    with the module's `OPTIONS` if it has any. Whatever a test leaves behind, the next one meets; nothing may
    run on when it is closed."""
    harness, backend = getattr(request, "param", None) or (request.module.HARNESS, "bubblewrap")
    options = getattr(request.module, "OPTIONS", None)
    install(PINNED[harness])
    before = descendants(os.getpid())
    async with open_worker(tmp_path_factory.mktemp("worker"), harness, backend, options) as worker:
        await worker.adapter.check()
        yield worker
    assert left_running(before) == []
