"""An operator, through MCP alone, validates, starts, watches, reads a failure and arms the watchdog of the quickstart, which
then stops the run that a thousand times its learning rate destroys."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.operator_session import FULL, session

pytestmark = [pytest.mark.soak, pytest.mark.slow]


async def test_the_watchdog_that_an_operator_armed_stops_a_collapsed_quickstart_in_time(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    done = await session(tmp_path, FULL, behind=14, say=told.append)
    assert done.onset is not None, told
    assert done.onset >= done.planted, told
    assert done.is_in_time, told
