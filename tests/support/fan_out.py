"""Rollouts whose conversations split, in each of the ways in which harnesses split them."""

from __future__ import annotations

from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.capture import Capture
from tests.support.conversation import SYSTEM, Talk
from tests.support.scripted_engine import say

WAYS = ("sub_agent", "compaction", "history_edited")
"""Causes of the branches behind the first one."""


def replies(num_rows: int) -> list[dict[str, object]]:
    """What a rollout of that many rows samples: the more, the longer."""
    return [say("What was found, in part " + "and so on " * row + f"{row}.") for row in range(num_rows)]


async def fan_out(proxy: CaptureProxy, rollout_id: str, num_rows: int, way: str) -> Capture:
    """A rollout of one turn a branch, `num_rows` branches, each with other messages before it."""
    async with Talk.begin(proxy, rollout_id=rollout_id) as talk:
        for row in range(num_rows):
            if row:
                _split(talk, row, way)
            await talk.turn()
        return talk.session.close()


def _split(talk: Talk, row: int, way: str) -> None:
    said = talk.messages[-1]["content"]
    if way == "sub_agent":
        talk.headers = {"x-session-id": str(row)}
        talk.messages = [SYSTEM, {"role": "user", "content": f"Look into part {row}."}]
    elif way == "compaction":
        talk.messages = [SYSTEM, {"role": "user", "content": f"Go on from this summary: {said}"}]
    else:
        talk.messages = [SYSTEM, {"role": "user", "content": f"Repair it. The time is {row}."}]
