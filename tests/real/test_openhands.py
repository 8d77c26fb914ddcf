"""The unmodified OpenHands SDK, through the real proxy, in a real sandbox; only the policy is scripted."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from lego_harness.adapters.install import OPENHANDS, install
from lego_harness.adapters.options import HarnessOptions
from lego_harness.errors import EngineUnavailable
from lego_harness.types import StopReason
from tests.support.processes import Watch, command, descendants, left_running
from tests.support.real_rollout import (
    Worker,
    conserves,
    ended_with,
    finish,
    open_worker,
    run_command,
    solve,
    told,
)
from tests.support.scripted_engine import say

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

HARNESS = "openhands"
DONE = finish(HARNESS)
EVERYWHERE = pytest.mark.parametrize(
    "worker", ["bubblewrap", pytest.param("docker", marks=pytest.mark.docker)], indirect=True
)
SUMMARY = "I counted to six thousand.\nNothing is repaired yet."


@pytest.fixture(scope="session", autouse=True)
def _installed() -> None:
    install(OPENHANDS)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["bubblewrap"])
async def worker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Worker]:
    """Shared, since the import is; it offers sub-agents and has a window that a long output fills."""
    options = HarnessOptions(subagents=True, context_tokens=32_000)
    before = descendants(os.getpid())
    async with open_worker(tmp_path_factory.mktemp("worker"), HARNESS, request.param, options) as worker:
        await worker.adapter.check()
        yield worker
    assert left_running(before) == []


def edit(worker: Worker) -> tuple[str, dict[str, str]]:
    """The call of the SDK's editor that repairs the worker's task."""
    task = worker.synth
    old, new = f" {task.initial.operator} ", f" {task.wanted.operator} "
    return "file_editor", {
        "command": "str_replace",
        "path": f"/workspace/{task.file}",
        "old_str": old,
        "new_str": new,
    }


@EVERYWHERE
async def test_a_file_edited_by_the_sdk_s_editor_is_graded_1(worker: Worker) -> None:
    view = ("file_editor", {"command": "view", "path": "/workspace"})
    trajectory = await worker.run([say("Look.", view), say("Repair.", edit(worker)), DONE])
    assert ended_with(trajectory, 1.0)
    assert conserves(trajectory)
    listing, edited = told(trajectory)
    assert f"/workspace/{worker.synth.file}" in listing
    assert "has been edited" in edited


async def test_a_repaired_task_is_graded_1_though_the_engine_was_away(worker: Worker) -> None:
    look, repair, end = solve(HARNESS, worker.synth)
    trajectory = await worker.run([look, EngineUnavailable("engine: restarting"), repair, end])
    assert ended_with(trajectory, 1.0)
    assert worker.synth.source in told(trajectory)[0]
    assert (len(trajectory.turns), len(trajectory.branches)) == (3, 1)
    assert conserves(trajectory)


@EVERYWHERE
async def test_parallel_calls_are_one_turn_answered_in_their_order(worker: Worker) -> None:
    calls = [
        ("terminal", {"command": "sleep 0.3; echo slow"}),
        edit(worker),
        ("terminal", {"command": "echo fast"}),
    ]
    trajectory = await worker.run([say("All.", *calls), DONE])
    assert (trajectory.stop_reason, len(trajectory.turns), len(trajectory.branches)) == (
        StopReason.COMPLETED,
        2,
        1,
    )
    slow, edited, fast = told(trajectory)
    assert slow.startswith("slow")
    assert "has been edited" in edited
    assert fast.startswith("fast")
    assert conserves(trajectory)


async def test_a_sub_agent_acts_in_the_same_sandbox_and_is_trained(worker: Worker) -> None:
    task = (
        "task",
        {"description": "repair it", "prompt": "Repair the file.", "subagent_type": "general-purpose"},
    )
    report = say("", ("finish", {"message": "It is repaired."}))
    steps = [say("Over to you.", task), say("", edit(worker)), report, run_command(HARNESS, "cat *.py"), DONE]
    trajectory = await worker.run(steps)
    assert ended_with(trajectory, 1.0)
    assert [branch.cause for branch in trajectory.branches] == ["start", "sub_agent"]
    assert len({branch.thread for branch in trajectory.branches}) == 2
    assert any("It is repaired." in text for text in told(trajectory))
    assert conserves(trajectory)


async def test_a_compacted_history_and_its_summary_are_trained(worker: Worker) -> None:
    steps = [run_command(HARNESS, "seq 1 6000"), say(SUMMARY), say("On.", edit(worker)), DONE]
    trajectory = await worker.run(steps)
    assert ended_with(trajectory, 1.0)
    assert [turn.side_call for turn in trajectory.turns] == ["", "compaction", "", ""]
    assert [branch.cause for branch in trajectory.branches] == ["start", "side_call", "compaction"]
    assert any(
        SUMMARY in str(message["content"]) for message in trajectory.messages if message["role"] == "user"
    )
    assert conserves(trajectory)


@EVERYWHERE
async def test_a_terminal_that_is_reset_is_one_of_the_sandbox_still(worker: Worker) -> None:
    """On a host with tmux, the SDK would open one there."""
    again = say("", ("terminal", {"command": "hostname; id -un; echo $$", "reset": True}))
    trajectory = await worker.run([run_command(HARNESS, "export KEPT=1"), again, DONE])
    assert trajectory.stop_reason is StopReason.COMPLETED
    _, reset = told(trajectory)
    assert "sandbox\nagent\n" in reset
    assert os.uname().nodename == "sandbox" or os.uname().nodename not in reset


async def test_two_rollouts_of_a_task_see_the_same_tokens_and_nothing_of_the_host(worker: Worker) -> None:
    contexts: list[list[list[int]]] = []
    for _ in range(2):
        trajectory = await worker.run(solve(HARNESS, worker.synth))
        contexts.append([turn.context_ids.tolist() for turn in trajectory.turns])
    assert contexts[0] == contexts[1]
    first_messages = str(trajectory.messages[:2])
    assert worker.synth.instruction in first_messages
    for secret in (os.uname().release, os.uname().nodename, os.environ["HOME"], str(Path.cwd())):
        assert len(secret) < 4 or secret not in first_messages


async def test_rollouts_run_beside_each_other_without_mixing(worker: Worker) -> None:
    look, _, end = solve(HARNESS, worker.synth)
    worker.engine([worker.by_turn(look, end)] * 6)
    trajectories = await asyncio.gather(*(worker.runner.run(worker.spec(f"s1.g0.r{i}")) for i in range(3)))
    assert [t.stop_reason for t in trajectories] == [StopReason.COMPLETED] * 3
    assert [len(t.turns) for t in trajectories] == [2] * 3


async def test_the_turn_budget_ends_an_agent_that_would_go_on(worker: Worker) -> None:
    steps = [run_command(HARNESS, f"echo {number}") for number in range(5)]
    trajectory = await worker.run(steps, max_turns=2)
    assert trajectory.stop_reason is StopReason.TRUNCATED_TURNS
    assert len(trajectory.turns) == 2
    assert conserves(trajectory)


@EVERYWHERE
async def test_the_wall_clock_ends_a_command_that_would_go_on(worker: Worker) -> None:
    trajectory = await worker.out_of_time("echo begun; sleep 1000", max_seconds=20)
    assert trajectory.stop_reason is StopReason.TIMEOUT
    assert trajectory.grade is None
    assert len(trajectory.turns) == 1


@EVERYWHERE
async def test_the_sdk_is_out_of_reach_of_an_agent_that_kills_everything(worker: Worker) -> None:
    """Its own shell is not: the SDK gives that a time, and then goes on."""
    kill = say("", ("terminal", {"command": "kill -9 -1", "timeout": "1"}))
    trajectory = await worker.run([solve(HARNESS, worker.synth)[1], kill, DONE])
    assert ended_with(trajectory, 1.0)


async def test_a_killed_fork_server_fails_what_it_ran_and_is_started_again(worker: Worker) -> None:
    engine = worker.engine([run_command(HARNESS, "sleep 1000")])
    rollout = asyncio.create_task(worker.runner.run(worker.spec("s1.g0.r0")))
    await engine.started.wait()
    (server,) = [pid for pid in descendants(os.getpid()) if _is_server(pid)]
    watch = Watch([server, *descendants(server)])
    os.kill(server, signal.SIGKILL)
    trajectory = await rollout
    assert trajectory.stop_reason is StopReason.FAILED_HARNESS
    assert "fork server" in trajectory.error
    assert watch.survivors(within_s=60) == []
    await worker.adapter.start()
    again = await worker.run(solve(HARNESS, worker.synth))
    assert again.stop_reason is StopReason.COMPLETED


def _is_server(pid: int) -> bool:
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return parent == os.getpid() and "openhands_fork_server" in command(pid)


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param("", id="empty"),
        pytest.param(" \n ", id="blank"),
        pytest.param(
            'Hm.\n<tool_call>\n{"name": "terminal", "arguments": {"comm\n</tool_call>', id="broken call"
        ),
        pytest.param("Let me think about it. " * 80, id="cut by length"),
    ],
)
async def test_a_reply_that_the_sdk_cannot_use_costs_no_token(worker: Worker, odd: str) -> None:
    trajectory = await worker.run([run_command(HARNESS, "ls"), say(odd), say(odd), DONE])
    assert (trajectory.stop_reason, trajectory.error) == (StopReason.COMPLETED, "")
    assert len(trajectory.turns) >= 2
    assert conserves(trajectory)


async def test_arguments_that_the_sdk_rewrites_or_refuses_cost_no_token(worker: Worker) -> None:
    odd: list[dict[str, Any]] = [
        {"command": "ls  \n\n", "timeout": "5"},
        {"timeout": 5.0, "command": "ls", "unheard_of": [1, None]},
        {"command": "printf 'é\\t\\n'", "is_input": "false"},
        {"command": 5},
        {},
    ]
    calls = [say("Let me see.\n", ("terminal", arguments)) for arguments in odd]
    other = say("", ("bash", {"command": "ls"}), ("no_such_tool", {"x": "y "}))
    trajectory = await worker.run([*calls, other, DONE])
    assert (trajectory.stop_reason, trajectory.error) == (StopReason.COMPLETED, "")
    assert len(trajectory.turns) == 7
    assert conserves(trajectory)


async def test_an_agent_that_the_sdk_finds_stuck_is_graded(worker: Worker) -> None:
    trajectory = await worker.run([run_command(HARNESS, "ls")] * 8)
    assert (trajectory.stop_reason, trajectory.error) == (StopReason.COMPLETED, "")
    assert 4 <= len(trajectory.turns) < 8
    assert trajectory.grade is not None
    assert trajectory.grade.reward == 0.0
    assert conserves(trajectory)


async def test_output_that_is_cut_names_no_file_of_the_host(worker: Worker, tmp_path: Path) -> None:
    big = run_command(HARNESS, "head -c 40000 /dev/zero | tr '\\0' x; cat /etc/passwd")
    trajectory = await worker.run([big, say(SUMMARY), DONE])
    (cut,) = (text for text in told(trajectory) if "clipped" in text)
    assert "saved to" not in cut
    assert str(tmp_path.parent.parent) not in str(trajectory.messages)
