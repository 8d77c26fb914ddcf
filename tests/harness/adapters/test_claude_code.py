"""What Claude Code is told, and what its end means."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from lego_harness.adapters.install import CLAUDE_CODE
from lego_harness.adapters.options import HarnessOptions
from lego_harness.registry import get_adapter
from tests.support.told import told_by


@pytest.fixture(autouse=True)
def _installed(put: Callable[..., Path]) -> None:
    put(CLAUDE_CODE)


async def test_sub_agents_need_the_full_prompt() -> None:
    for subagents in (False, True):
        told, _ = await told_by(get_adapter("claude-code", HarnessOptions(subagents=subagents)))
        assert ("--bare" in told.command) is not subagents
        assert ("Agent" in told.command[-1]) is subagents


async def test_it_has_the_run_s_window_and_never_asks_twice() -> None:
    told, _ = await told_by(get_adapter("claude-code", HarnessOptions(context_tokens=60_000)))
    assert told.env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "60000"
    assert told.env["CLAUDE_CODE_MAX_RETRIES"] == "0"


@pytest.mark.parametrize(
    ("reason", "is_ordinary"),
    [("blocking_limit", True), ("autocompact_thrashing", True), ("api_error", False)],
)
async def test_an_agent_that_fills_its_window_has_ended_by_itself(reason: str, is_ordinary: bool) -> None:
    result = json.dumps({"type": "result", "terminal_reason": reason}, separators=(",", ":"))
    _, exit_ = await told_by(get_adapter("claude-code"), 1, result)
    assert (exit_.exit_code in exit_.ordinary) is is_ordinary
