"""What Claude Code does with its full prompt, sub-agents and a window that fills; only the policy is scripted."""

from __future__ import annotations

import pytest

from lego_harness.adapters.options import HarnessOptions
from tests.support.real_rollout import Worker, conserves, ended_with, run_command, solve
from tests.support.scripted_engine import say

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

HARNESS = "claude-code"
OPTIONS = HarnessOptions(subagents=True, context_tokens=60_000)
"""It offers sub-agents, and has a window that a long output fills."""
SUMMARY = "<summary>\nI listed numbers.\nNothing is repaired yet.\n</summary>"


async def test_a_sub_agent_acts_in_the_same_sandbox_and_is_trained(worker: Worker) -> None:
    _, repair, end = solve(HARNESS, worker.synth)
    errand = {"description": "repair it", "prompt": "Repair the file.", "subagent_type": "general-purpose"}
    steps = [say("Over to you.", ("Agent", errand)), repair, say("It is repaired."), end]
    trajectory = await worker.run(steps)
    assert ended_with(trajectory, 1.0)
    first, second = trajectory.branches
    assert (first.cause, second.cause) == ("start", "sub_agent")
    assert first.thread != second.thread
    assert any("It is repaired." in str(m["content"]) for m in trajectory.messages if m["role"] == "tool")
    assert conserves(trajectory)


async def test_a_compacted_history_and_its_summary_are_trained(worker: Worker) -> None:
    _, repair, end = solve(HARNESS, worker.synth)
    long = run_command(HARNESS, "seq -s ' ' 10000000 10003000")
    trajectory = await worker.run([long, run_command(HARNESS, "ls"), say(SUMMARY), repair, end])
    assert ended_with(trajectory, 1.0)
    assert [turn.side_call for turn in trajectory.turns] == ["", "", "compaction", "", ""]
    assert [branch.cause for branch in trajectory.branches][-1] == "compaction"
    assert conserves(trajectory)
