"""The unmodified Codex CLI, through the real proxy, in a real sandbox; only the policy is scripted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from lego_harness.adapters.options import HarnessOptions
from lego_harness.errors import EngineUnavailable
from lego_harness.types import StopReason
from tests.support.real_rollout import Worker, conserves, ended_with, run_command, solve, told
from tests.support.scripted_engine import say

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

HARNESS = "codex"
OPTIONS = HarnessOptions(subagents=True, context_tokens=24_000)
"""It offers sub-agents, and has a window that a long output fills."""
SUMMARY = "I listed numbers.\nNothing is repaired yet."
ERRAND = "Repair the file for me."


async def test_a_repaired_task_is_graded_1_though_the_engine_was_away(worker: Worker) -> None:
    look, repair, end = solve(HARNESS, worker.synth)
    trajectory = await worker.run([look, EngineUnavailable("engine: restarting"), repair, end])
    assert ended_with(trajectory, 1.0)
    assert worker.synth.source in told(trajectory)[0]
    assert (len(trajectory.turns), len(trajectory.branches)) == (3, 1)
    assert conserves(trajectory)


async def test_a_command_that_goes_on_is_asked_after(worker: Worker) -> None:
    def poll(context: str) -> Mapping[str, Any]:
        (session,) = re.findall(r"session ID (\d+)", context)
        answer = {"session_id": int(session), "chars": "yes\n", "yield_time_ms": 30_000}  # or until it ends
        return say("", ("write_stdin", answer))

    waits = say(
        "", ("exec_command", {"cmd": "read answer; echo got $answer", "yield_time_ms": 250, "tty": True})
    )
    trajectory = await worker.run([waits, worker.by_text(poll), say("Done.")])
    assert (trajectory.stop_reason, len(trajectory.turns)) == (StopReason.COMPLETED, 3)
    assert "got yes" in told(trajectory)[1]
    assert conserves(trajectory)


async def test_a_sub_agent_acts_in_the_same_sandbox_and_is_trained(worker: Worker) -> None:
    """Parent and sub-agent ask at the same time: what each says depends on what it was told."""
    _, repair, end = solve(HARNESS, worker.synth)

    def reply(context: str) -> Mapping[str, Any]:
        ids = re.findall(r'"agent_id": ?"([^"]+)"', context)
        if worker.synth.instruction not in context:
            return say("It is repaired.") if "Process exited" in context else repair
        if not ids:
            return say("Over to you.", ("multi_agent_v1.spawn_agent", {"message": ERRAND}))
        if "It is repaired." not in context:
            return say("", ("multi_agent_v1.wait_agent", {"targets": ids, "timeout_ms": 60_000}))
        return end

    trajectory = await worker.run([worker.by_text(reply)] * 8)
    assert ended_with(trajectory, 1.0)
    first, second = trajectory.branches
    assert (first.cause, second.cause) == ("start", "sub_agent")
    assert second.parent == first.thread != second.thread
    assert conserves(trajectory)


async def test_a_compacted_history_and_its_summary_are_trained(worker: Worker) -> None:
    _, repair, end = solve(HARNESS, worker.synth)
    long = run_command(HARNESS, "seq -s ' ' 10000000 10001000")
    trajectory = await worker.run([long, run_command(HARNESS, "ls"), say(SUMMARY), repair, end])
    assert ended_with(trajectory, 1.0)
    assert [turn.side_call for turn in trajectory.turns] == ["", "", "compaction", "", ""]
    assert [branch.cause for branch in trajectory.branches] == ["start", "side_call", "compaction"]
    assert any(SUMMARY in str(m["content"]) for m in trajectory.messages if m["role"] == "user")
    assert conserves(trajectory)
