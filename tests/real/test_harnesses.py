"""The unmodified harnesses, through the real proxy, in real sandboxes; only the policy is scripted."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from lego_harness.errors import EngineError
from lego_harness.types import StopReason
from tests.support.processes import Watch, command, descendants
from tests.support.real_rollout import Worker, ended_with, finish, run_command, solve
from tests.support.scripted_engine import say

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

HARNESSES = ("mini-swe-agent", "claude-code", "codex")
CASES = [
    pytest.param((harness, backend), id=f"{harness}-{backend}", marks=marks)
    for harness in HARNESSES
    for backend, marks in (("bubblewrap", ()), ("docker", (pytest.mark.docker,)))
]
SOME = [case for case in CASES if "bubblewrap" in str(case.id)]


def harness_of(worker: Worker) -> str:
    return worker.adapter.name


@pytest.mark.parametrize("worker", CASES, indirect=True)
async def test_a_repaired_task_is_graded_1_and_every_sampled_token_is_kept_once(worker: Worker) -> None:
    harness = harness_of(worker)
    trajectory = await worker.run(solve(harness, worker.synth))
    assert ended_with(trajectory, 1.0)
    assert len(trajectory.turns) == 3
    assert worker.synth.source.splitlines()[-1] in trajectory.patch
    (branch,) = trajectory.branches
    assert int(branch.mask.sum()) == trajectory.num_sampled
    sampled = np.concatenate([turn.sampled_ids for turn in trajectory.turns])
    assert np.array_equal(branch.ids[branch.mask], sampled)


@pytest.mark.parametrize("worker", SOME, indirect=True)
async def test_two_rollouts_of_a_task_see_the_same_tokens_and_nothing_of_the_host(worker: Worker) -> None:
    contexts: list[list[list[int]]] = []
    for _ in range(2):
        trajectory = await worker.run(solve(harness_of(worker), worker.synth))
        contexts.append([turn.context_ids.tolist() for turn in trajectory.turns])
    if harness_of(worker) == "codex":  # which tells its commands' durations, and numbers them at random
        contexts = [turns[:1] for turns in contexts]
    assert contexts[0] == contexts[1]
    first_messages = str(trajectory.messages[:3]).replace("</root>", "")  # Codex's closing tag, and a HOME
    assert worker.synth.instruction in first_messages
    for secret in (os.uname().release, os.uname().nodename, os.environ["HOME"], str(Path.cwd())):
        assert len(secret) < 4 or secret not in first_messages


@pytest.mark.parametrize("worker", SOME, indirect=True)
async def test_rollouts_run_beside_each_other_without_mixing(worker: Worker) -> None:
    look, _, end = solve(harness_of(worker), worker.synth)
    worker.engine([worker.by_turn(look, end)] * 8)
    trajectories = await asyncio.gather(*(worker.runner.run(worker.spec(f"s1.g0.r{i}")) for i in range(4)))
    assert [t.stop_reason for t in trajectories] == [StopReason.COMPLETED] * 4
    assert [len(t.turns) for t in trajectories] == [2] * 4


@pytest.mark.parametrize("worker", SOME, indirect=True)
async def test_the_turn_budget_ends_a_harness_that_would_go_on(worker: Worker) -> None:
    trajectory = await worker.run([run_command(harness_of(worker), "ls")] * 5, max_turns=2)
    assert trajectory.stop_reason is StopReason.TRUNCATED_TURNS
    assert len(trajectory.turns) == 2
    assert trajectory.grade is not None
    assert trajectory.grade.reward == 0.0


@pytest.mark.parametrize("worker", SOME, indirect=True)
async def test_the_wall_clock_ends_a_command_that_would_go_on(worker: Worker) -> None:
    trajectory = await worker.out_of_time("sleep 1000", max_seconds=4)
    assert trajectory.stop_reason is StopReason.TIMEOUT
    assert trajectory.grade is None
    assert len(trajectory.turns) == 1
    assert trajectory.timings_s["agent"] < 150


@pytest.mark.parametrize("worker", SOME, indirect=True)
async def test_an_engine_failure_ends_the_rollout_at_once_instead_of_being_retried(worker: Worker) -> None:
    trajectory = await worker.run([run_command(harness_of(worker), "ls"), EngineError("replica lost")])
    assert (trajectory.stop_reason, trajectory.error) == (StopReason.FAILED_ENGINE, "replica lost")
    assert trajectory.grade is None
    assert len(trajectory.turns) == 1
    assert trajectory.timings_s["agent"] < 60  # of the 90 that it would have had


@pytest.mark.parametrize("worker", SOME, indirect=True)
async def test_a_reply_without_a_call_is_the_policy_s_business_and_graded(worker: Worker) -> None:
    trajectory = await worker.run([say("I would rather not.")] * 5)
    assert ended_with(trajectory, 0.0)


@pytest.mark.parametrize("worker", CASES, indirect=True)
async def test_killing_everything_in_reach_is_worth_nothing_to_the_agent(worker: Worker) -> None:
    """Who lives in the sandbox dies with it; mini-swe-agent is out of reach and goes on."""
    harness = harness_of(worker)
    repair = solve(harness, worker.synth)[1]
    trajectory = await worker.run([repair, run_command(harness, "kill -9 -1"), finish(harness)])
    assert trajectory.stop_reason is StopReason.COMPLETED
    assert trajectory.grade is not None
    assert trajectory.grade.reward == (1.0 if harness == "mini-swe-agent" else 0.0)
    if harness != "mini-swe-agent":
        assert "killed inside" in trajectory.grade.detail


@pytest.mark.parametrize("worker", SOME[:1], indirect=True)
async def test_a_killed_fork_server_fails_what_it_ran_and_is_started_again(worker: Worker) -> None:
    gate = asyncio.Event()
    engine = worker.engine([], gate)
    rollout = asyncio.create_task(worker.runner.run(worker.spec("s1.g0.r0")))
    await asyncio.wait(
        {rollout, asyncio.create_task(engine.started.wait())}, return_when=asyncio.FIRST_COMPLETED
    )
    assert not rollout.done()
    (server,) = [
        pid
        for pid in descendants(os.getpid())
        if "mini_fork_server" in command(pid) and _parent(pid) == os.getpid()
    ]
    watch = Watch([server, *descendants(server)])
    os.kill(server, signal.SIGKILL)
    trajectory = await rollout
    assert trajectory.stop_reason is StopReason.FAILED_HARNESS
    assert "fork server" in trajectory.error
    assert watch.survivors(within_s=60) == []
    again = await worker.run(solve(harness_of(worker), worker.synth))
    assert again.stop_reason is StopReason.COMPLETED


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
