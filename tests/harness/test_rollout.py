"""How a rollout ends, and what its ending is worth."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lego_harness.adapters.base import HarnessExit
from lego_harness.errors import EngineError, GraderError, HarnessError, SandboxEnded, SetupError, UsageError
from lego_harness.sandbox.base import Mount, Phase
from lego_harness.types import Finding, FindingKind, StopReason, Task
from tests.support.fake_rollout import FakeSession, FakeWorld, make_spec

OK = HarnessExit(exit_code=0, output="")


@pytest.fixture
def task(tmp_path: Path) -> Task:
    workspace = tmp_path / "ops-1" / "environment" / "repo"
    workspace.mkdir(parents=True)
    (workspace / "calc.py").write_bytes(b"wrong\n")
    return Task(id="ops-1", path=tmp_path / "ops-1", instruction="fix it")


def exits(exit_: HarnessExit = OK, *, turns: int = 2, work: bytes = b"right\n", is_cut: bool = False):
    async def harness(session: FakeSession, world: FakeWorld) -> HarnessExit:
        session.num_turns, session.is_cut = turns, is_cut
        world.files["calc.py"] = work
        return exit_

    return harness


def raises(error: Exception, *, turns: int = 2):
    async def harness(session: FakeSession, world: FakeWorld) -> HarnessExit:
        session.num_turns = turns
        raise error

    return harness


def hangs_after(stop: StopReason, error: str = ""):
    """The proxy ends the session; the harness would go on for ever."""

    async def harness(session: FakeSession, world: FakeWorld) -> HarnessExit:
        session.num_turns = 2
        world.files["calc.py"] = b"right\n"
        session.end(stop, error)
        await asyncio.Event().wait()
        raise AssertionError

    return harness


def exits_after(stop: StopReason, exit_: HarnessExit):
    """The proxy ends the session and the harness, told so, exits before it is killed."""

    async def harness(session: FakeSession, world: FakeWorld) -> HarnessExit:
        session.num_turns = 2
        session.end(stop, "first cause")
        return exit_

    return harness


async def hangs(session: FakeSession, world: FakeWorld) -> HarnessExit:
    session.num_turns = 1
    await asyncio.Event().wait()
    raise AssertionError


def failing(code: int = 1, **facts: Any) -> HarnessExit:
    return HarnessExit(exit_code=code, output="Traceback\n\x1b[31mboom", **facts)


FOUND = Finding(kind=FindingKind.TEST_EDIT, detail="tests/x")
GONE = SandboxEnded("exec in a container that is gone, brought down from inside")
LOST = SetupError("exec in a container that somebody removed")
WAYS_TO_END = {
    "completed and right": (FakeWorld(exits()), StopReason.COMPLETED, 1.0, ""),
    "completed and wrong": (FakeWorld(exits(work=b"worse\n")), StopReason.COMPLETED, 0.0, ""),
    "turn budget": (FakeWorld(hangs_after(StopReason.TRUNCATED_TURNS)), StopReason.TRUNCATED_TURNS, 1.0, ""),
    "token budget": (FakeWorld(hangs_after(StopReason.TRUNCATED_TOKENS)), StopReason.TRUNCATED_TOKENS, 1.0, ""),
    "turn budget, harness exits by itself": (
        FakeWorld(exits_after(StopReason.TRUNCATED_TURNS, failing())), StopReason.TRUNCATED_TURNS, 0.0, "",
    ),
    "wall clock": (FakeWorld(hangs), StopReason.TIMEOUT, None, "wall clock"),
    "wall clock seen by the adapter": (
        FakeWorld(exits(failing(-9, timed_out=True))), StopReason.TIMEOUT, None, "wall clock",
    ),
    "engine failed": (
        FakeWorld(hangs_after(StopReason.FAILED_ENGINE, "engine\nlost")), StopReason.FAILED_ENGINE, None, "engine lost",
    ),
    "alignment failed": (
        FakeWorld(hangs_after(StopReason.FAILED_ALIGNMENT, "edited")), StopReason.FAILED_ALIGNMENT, None, "edited",
    ),
    "proxy closed": (FakeWorld(hangs_after(StopReason.CANCELLED, "closed")), StopReason.CANCELLED, None, "closed"),
    "harness exits with an error after an engine failure": (
        FakeWorld(exits_after(StopReason.FAILED_ENGINE, failing())), StopReason.FAILED_ENGINE, None, "first cause",
    ),
    "sandbox cannot be made": (
        FakeWorld(exits(), open_error=SetupError("no image")), StopReason.FAILED_SETUP, None, "no image",
    ),
    "disk is full": (FakeWorld(exits(), open_error=OSError(28, "No space")), StopReason.FAILED_SETUP, None, "No space"),
    "sandbox gone before the first turn": (FakeWorld(raises(GONE, turns=0)), StopReason.FAILED_SETUP, None, "gone"),
    "agent ended its sandbox": (FakeWorld(raises(GONE)), StopReason.COMPLETED, 0.0, ""),
    "agent ended its sandbox, seen at the export": (
        FakeWorld(exits(), export_error=GONE), StopReason.COMPLETED, 0.0, "",
    ),
    "agent ended its sandbox, then ran out of turns": (
        FakeWorld(hangs_after(StopReason.TRUNCATED_TURNS), export_error=GONE), StopReason.TRUNCATED_TURNS, 0.0, "",
    ),
    "sandbox lost under the agent": (FakeWorld(raises(LOST)), StopReason.FAILED_SETUP, None, "somebody removed"),
    "sandbox lost, seen at the export": (
        FakeWorld(exits(), export_error=LOST), StopReason.FAILED_SETUP, None, "somebody removed",
    ),
    "sandbox gone with its backend": (
        FakeWorld(raises(GONE), check_error=SetupError("no engine")), StopReason.FAILED_SETUP, None, "gone",
    ),
    "sandbox cannot be removed": (
        FakeWorld(exits(), close_error=SetupError("still runs")), StopReason.FAILED_SETUP, None, "still runs",
    ),
    "harness crashes before the first call": (
        FakeWorld(exits(failing(), turns=0)), StopReason.FAILED_HARNESS, None, "Traceback [31mboom",
    ),
    "harness ends well without a call": (
        FakeWorld(exits(OK, turns=0)), StopReason.FAILED_HARNESS, None, "before its first model call",
    ),
    "harness exits with an error": (FakeWorld(exits(failing(3))), StopReason.FAILED_HARNESS, None, "exited with 3"),
    "harness exits with an error after a reply that was cut": (
        FakeWorld(exits(failing(1), is_cut=True)), StopReason.COMPLETED, 1.0, "",
    ),
    "harness exits with an error that says nothing of it": (
        FakeWorld(exits(failing(1, ordinary=frozenset({0, 1})))), StopReason.COMPLETED, 1.0, "",
    ),
    "harness raises": (FakeWorld(raises(HarnessError("server died"))), StopReason.FAILED_HARNESS, None, "server died"),
    "harness killed inside the sandbox": (
        FakeWorld(exits(failing(137, killed_inside=True))), StopReason.COMPLETED, 0.0, "",
    ),
    "harness exits with an error in a sandbox that the agent made useless": (
        FakeWorld(exits(failing(1)), serves=(False, True)), StopReason.COMPLETED, 0.0, "",
    ),
    "harness exits with an error where no sandbox serves": (
        FakeWorld(exits(failing(1)), serves=(False, False)), StopReason.FAILED_HARNESS, None, "exited with 1",
    ),
    "harness exits well in a sandbox that the agent made useless": (
        FakeWorld(exits(), serves=(False, True)), StopReason.COMPLETED, 1.0, "",
    ),
    "harness crashes before the first call in a sandbox that is useless": (
        FakeWorld(exits(failing(1), turns=0), serves=(False, True)), StopReason.FAILED_HARNESS, None, "before its first",
    ),
    "harness killed inside before the first call": (
        FakeWorld(exits(failing(137, killed_inside=True), turns=0)), StopReason.FAILED_HARNESS, None, "137",
    ),
    "adapter meets an engine error": (FakeWorld(raises(EngineError("no"))), StopReason.FAILED_ENGINE, None, "no"),
    "a finding masks it": (
        FakeWorld(exits(), findings=(FOUND,), policy={FOUND.kind: "mask"}), StopReason.MASKED_INTEGRITY, None, "test_edit: tests/x",
    ),
    "a finding excuses nobody who earned nothing": (
        FakeWorld(exits(work=b"worse\n"), findings=(FOUND,), policy={FOUND.kind: "mask"}), StopReason.COMPLETED, 0.0, "",
    ),
    "a finding takes its reward": (
        FakeWorld(exits(), findings=(FOUND,), policy={FOUND.kind: "zero"}), StopReason.COMPLETED, 0.0, "",
    ),
    "a finding is only flagged": (FakeWorld(exits(), findings=(FOUND,)), StopReason.COMPLETED, 1.0, ""),
    "grader failed": (
        FakeWorld(exits(), grade_error=GraderError("no verdict")), StopReason.FAILED_GRADER, None, "no verdict",
    ),
    "grader's sandbox failed": (
        FakeWorld(exits(), grade_error=SetupError("no disk")), StopReason.FAILED_GRADER, None, "no disk",
    ),
    "grader's task is gone": (
        FakeWorld(exits(), grade_error=UsageError("no tests")), StopReason.FAILED_GRADER, None, "no tests",
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS_TO_END)
async def test_every_way_to_end_has_one_stop_reason_and_a_reward_only_where_law_5_allows_it(
    way: str, task: Task
) -> None:
    template, stop, reward, error = WAYS_TO_END[way]
    world = replace(template, opened=[])
    max_seconds = 0.05 if way == "wall clock" else 30.0

    trajectory = await world.runner().run(make_spec(task, max_seconds=max_seconds))

    assert trajectory.stop_reason is stop
    assert (trajectory.grade.reward if trajectory.grade else None) == reward
    assert (trajectory.grade is not None) == stop.is_graded
    assert error in trajectory.error
    assert bool(trajectory.error) == (not stop.is_graded)
    assert trajectory.error.isprintable()
    assert world.session is not None
    assert world.session.is_closed
    assert not world.is_harness_running
    assert world.num_open == 0
    assert len(trajectory.turns) == world.session.num_turns
    assert sum(int(branch.mask.sum()) for branch in trajectory.branches) == trajectory.num_sampled


def test_the_table_covers_every_stop_reason() -> None:
    assert {stop for _, stop, _, _ in WAYS_TO_END.values()} == set(StopReason)


async def test_a_forfeited_reward_says_why_and_never_reaches_the_grader(task: Task) -> None:
    world = FakeWorld(exits(failing(137, killed_inside=True)))
    trajectory = await world.runner().run(make_spec(task))
    assert trajectory.grade is not None
    assert "killed inside" in trajectory.grade.detail
    assert world.num_graded == 0


async def test_a_trajectory_carries_the_change_the_stages_and_the_names(task: Task) -> None:
    world = FakeWorld(exits())
    trajectory = await world.runner().run(make_spec(task))
    assert trajectory.integrity == ()
    assert "-wrong" in trajectory.patch
    assert "+right" in trajectory.patch
    assert (trajectory.id, trajectory.task_id) == ("s00001.g00.r0", "ops-1")
    assert (trajectory.harness, trajectory.sandbox) == ("fake-harness", "fake-sandbox")
    assert {"sandbox_setup", "agent", "grading", "engine"} <= trajectory.timings_s.keys()
    assert trajectory.timings_s["engine"] == pytest.approx(0.5)


async def test_deleting_every_file_is_a_change_like_any_other(task: Task) -> None:
    async def delete(session: FakeSession, world: FakeWorld) -> HarnessExit:
        session.num_turns = 1
        world.files.clear()
        return OK

    trajectory = await FakeWorld(delete).runner().run(make_spec(task))
    assert trajectory.stop_reason is StopReason.COMPLETED
    assert "-wrong" in trajectory.patch


async def test_the_sandbox_gets_the_workspace_the_proxy_socket_and_the_harness_runtime(task: Task) -> None:
    mount = Mount(source=Path("/bin/true"), target="/opt/lego/true")
    world = FakeWorld(exits(), mounts=(mount,))
    await world.runner().run(make_spec(task))
    (spec,) = world.opened
    assert spec.phase is Phase.AGENT
    assert spec.files == {"calc.py": b"wrong\n"}
    assert spec.label == "run-1"
    assert world.session is not None
    assert spec.proxy_socket == world.session.endpoint.socket
    assert spec.mounts == (mount,)


async def test_a_history_is_sealed_beside_the_other_rollouts_one_at_a_time(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    others_ran, alone = threading.Event(), threading.Lock()

    def slow_git(workspace: Path) -> dict[str, bytes]:
        assert alone.acquire(blocking=False)
        assert others_ran.wait(timeout=30)
        alone.release()
        return {}

    monkeypatch.setattr("lego_harness.rollout.sealed_git", slow_git)
    runner = FakeWorld(exits()).runner()
    running = [asyncio.create_task(runner.run(make_spec(task))) for _ in range(3)]
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(others_ran.set)
    assert len(await asyncio.gather(*running)) == 3


async def test_a_task_s_own_limit_ends_a_rollout_before_a_larger_budget(task: Task) -> None:
    world = FakeWorld(hangs)
    trajectory = await world.runner().run(make_spec(replace(task, agent_timeout_s=0.05)))
    assert trajectory.stop_reason is StopReason.TIMEOUT


async def test_a_task_without_its_folder_fails_in_setup(tmp_path: Path) -> None:
    missing = Task(id="gone", path=tmp_path / "gone", instruction="x")
    world = FakeWorld(exits(), open_error=SetupError("expected files"))
    trajectory = await world.runner().run(make_spec(missing))
    assert trajectory.stop_reason is StopReason.FAILED_SETUP


async def test_cancelling_a_rollout_kills_the_harness_closes_everything_and_propagates(task: Task) -> None:
    running = asyncio.Event()

    async def harness(session: FakeSession, world: FakeWorld) -> HarnessExit:
        running.set()
        await asyncio.Event().wait()
        raise AssertionError

    world = FakeWorld(harness)
    rollout = asyncio.create_task(world.runner().run(make_spec(task)))
    await running.wait()
    rollout.cancel()
    with pytest.raises(asyncio.CancelledError):
        await rollout
    assert world.session is not None
    assert world.session.is_closed
    assert not world.is_harness_running
    assert world.num_open == 0
