"""The unmodified OpenCode, through the real proxy, in real sandboxes; only the policy is scripted."""

from __future__ import annotations

import pytest

from lego_harness.adapters.options import HarnessOptions
from lego_harness.errors import EngineError, EngineUnavailable
from lego_harness.types import StopReason
from tests.support.real_rollout import Worker, conserves, ended_with, run_command, solve, told
from tests.support.scripted_engine import say

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

HARNESS = "opencode"
OPTIONS = HarnessOptions(subagents=True, context_tokens=80_000)
"""It offers sub-agents, and has a window that three long outputs fill."""
LONG = run_command(HARNESS, "seq -s ' ' 10000000 10003000")
SUMMARY = "I listed numbers.\nNothing is repaired yet."


async def test_a_repaired_task_is_graded_1_though_the_engine_was_away(worker: Worker) -> None:
    look, repair, end = solve(HARNESS, worker.synth)
    trajectory = await worker.run([look, EngineUnavailable("engine: restarting"), repair, end])
    assert ended_with(trajectory, 1.0)
    assert worker.synth.source in told(trajectory)[0]
    assert (len(trajectory.turns), len(trajectory.branches)) == (3, 1)
    assert conserves(trajectory)


async def test_parallel_calls_of_all_its_tools_are_one_turn_answered_in_their_order(worker: Worker) -> None:
    file = f"/workspace/{worker.synth.file}"
    calls = [
        ("bash", {"command": "sleep 0.3; echo slow; env"}),
        ("grep", {"pattern": "return"}),
        ("glob", {"pattern": "**/*.py"}),
        ("read", {"filePath": file}),
    ]
    edit = {
        "filePath": file,
        "oldString": worker.synth.initial.operator,
        "newString": worker.synth.wanted.operator,
    }
    trajectory = await worker.run([say("All.", *calls), say("", ("edit", edit)), say("Done.")])
    assert trajectory.grade is not None
    assert trajectory.grade.reward == 1.0, told(trajectory)
    bash, grep, glob, read, _ = told(trajectory)
    assert bash.startswith("slow")
    assert "/rollout/" not in bash
    assert file in grep
    assert "Line 2" in grep
    assert glob.strip() == file
    assert "1: def " in read
    assert (len(trajectory.turns), len(trajectory.branches)) == (3, 1)
    assert conserves(trajectory)


async def test_a_sub_agent_acts_in_the_same_sandbox_and_is_trained(worker: Worker) -> None:
    _, repair, end = solve(HARNESS, worker.synth)
    task = {"description": "repair it", "prompt": "Repair the file.", "subagent_type": "general"}
    steps = [say("Over to you.", ("task", task)), repair, say("It is repaired."), end]
    trajectory = await worker.run(steps)
    assert ended_with(trajectory, 1.0)
    first, second = trajectory.branches
    assert (first.cause, second.cause) == ("start", "sub_agent")
    assert second.parent == first.thread != second.thread
    assert any("It is repaired." in text for text in told(trajectory))
    assert conserves(trajectory)


async def test_a_compacted_history_and_its_summary_are_trained(worker: Worker) -> None:
    _, repair, end = solve(HARNESS, worker.synth)
    trajectory = await worker.run([LONG, LONG, run_command(HARNESS, "ls"), say(SUMMARY), repair, end])
    assert ended_with(trajectory, 1.0)
    assert [turn.side_call for turn in trajectory.turns] == ["", "", "", "compaction", "", ""]
    assert [branch.cause for branch in trajectory.branches] == ["start", "side_call", "compaction"]
    assert conserves(trajectory)


async def test_a_failure_it_cannot_survive_is_the_engine_s_not_the_agent_s(worker: Worker) -> None:
    trajectory = await worker.run([run_command(HARNESS, "ls"), EngineError("replica lost")])
    assert (trajectory.stop_reason, trajectory.error) == (StopReason.FAILED_ENGINE, "replica lost")
    assert trajectory.grade is None
    assert len(trajectory.turns) == 1


async def test_killing_everything_in_reach_is_worth_nothing(worker: Worker) -> None:
    repair = solve(HARNESS, worker.synth)[1]
    trajectory = await worker.run([repair, run_command(HARNESS, "kill -9 -1")])
    assert trajectory.stop_reason is StopReason.COMPLETED
    assert trajectory.grade is not None
    assert (trajectory.grade.reward, "killed inside" in trajectory.grade.detail) == (0.0, True)
