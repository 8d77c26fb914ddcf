"""Replays a recording and gives the outcome of each session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lego_harness.proxy.render import Renderer
from lego_harness.wire.byte_tokenizer import byte_renderer
from lego_harness.wire.outcome import is_conserved, outcome
from lego_harness.wire.recording import read_recording
from lego_harness.wire.replay import replay
from tests.support.recordings import Outcome, Outcomes, Tape


@pytest.fixture(scope="session")
def renderer() -> Renderer:
    return byte_renderer()


@pytest.fixture
def outcomes(renderer: Renderer, tmp_path: Path) -> Outcomes:
    """All sessions of a recording; each must be conserved."""

    async def run(tape: Tape | Path) -> list[dict[str, Any]]:
        calls = read_recording(tape.write(tmp_path) if isinstance(tape, Tape) else tape)
        replayed = await replay(calls, renderer)
        assert all(map(is_conserved, replayed))
        return [outcome(one) for one in replayed]

    return run


@pytest.fixture
def outcome_of(outcomes: Outcomes) -> Outcome:
    """The one session of a recording."""

    async def run(tape: Tape | Path) -> dict[str, Any]:
        (only,) = await outcomes(tape)
        return only

    return run
