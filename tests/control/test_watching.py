"""`lego tail`, `lego top` and `lego demo-runs`, as a person or a program types them."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from lego_control.cli import main
from lego_control.demo_runs.rollouts import MAX_SECONDS, MAX_TOKENS, NO_SPACE, Setting, make_rollout
from lego_control.demo_runs.session import errands
from lego_control.demo_runs.write import POOL, find_story
from lego_core.store import RunReader, RunWriter
from lego_harness.types import StopReason
from tests.support.runs import recipe, step, write_run


def test_tail_prints_steps_evaluations_and_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tail", str(write_run(tmp_path))]) == 0
    out = capsys.readouterr().out
    assert "step    3/3" in out
    assert "held-out at step 3: 75.0% of 64" in out
    assert out.splitlines()[-1].startswith("end: status finished")


def test_tail_for_programs_is_one_object_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tail", str(write_run(tmp_path)), "--json", "-n", "1"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [item["step"] for item in told if item["kind"] == "step"] == [3]
    assert told[-1] == {"kind": "end", "status": "finished", "reason": "", "steps": 3}


def test_tail_follows_a_run_to_its_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = RunWriter.create(tmp_path, recipe())
    writer.append_step(step(1))
    codes: list[int] = []
    following = threading.Thread(
        target=lambda: codes.append(main(["tail", str(writer.layout.root), "--json"]))
    )
    following.start()
    writer.append_step(step(2))
    writer.close("failed", "the disk is full")
    following.join(timeout=60)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert codes == [0]
    assert [item["step"] for item in told if item["kind"] == "step"] == [1, 2]
    assert told[-1]["reason"] == "the disk is full"


def test_top_names_every_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [write_run(tmp_path), write_run(tmp_path)]
    assert main(["top", str(tmp_path), "--json"]) == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {item["name"] for item in told} == {run.name for run in runs}
    assert [item["reward_mean"] for item in told] == pytest.approx([0.3, 0.3])
    assert main(["top", str(tmp_path), "--once"]) == 0
    assert "✓ finished" in capsys.readouterr().out


def test_what_cannot_be_drawn_on_is_refused_with_what_can_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(tmp_path)]) == 2  # a pipe
    assert "lego tail" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["watch", "tail", "top"])
def test_a_folder_that_is_not_there_is_one_line(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err


def test_web_refuses_control(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(tmp_path), "--web", "--allow-control"]) == 2
    assert "--web only looks" in capsys.readouterr().err


def test_demo_runs_are_the_same_every_time_and_keep_every_token(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        assert main(["demo-runs", str(tmp_path / folder), "--only", "reward-hack", "--steps", "4"]) == 0
    files = [sorted(p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file())]
    for path in files[0]:
        if path.name != "run.json":  # which names its own folder
            assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes(), path
    reader = RunReader(tmp_path / "one" / "reward-hack")
    index = reader.trajectory_index()
    for record in reader.steps():
        assert record.sampled == record.trained + sum(record.masked.values())
        assert record.sampled == sum(entry.sampled for entry in index if entry.step == record.step)
    for entry in index[:40]:
        trajectory = reader.load(entry)
        assert sum(int(branch.mask.sum()) for branch in trajectory.branches) == trajectory.num_sampled


@pytest.mark.parametrize("name", ["healthy", "environment-failure", "collapse", "reward-hack"])
def test_in_a_demo_run_the_outcome_follows_from_what_was_done(name: str) -> None:
    story, pool = find_story(name), errands(POOL)
    scenes = [story.scene(share) for share in (0.1, 0.55, 1.0)]
    made = [
        make_rollout(
            f"s{n}", pool[n % POOL], Setting(scene=scene, harness=story.harness, version=0, epoch=0), rng
        )
        for scene in scenes
        for n, rng in enumerate(map(np.random.default_rng, range(40)))
    ]
    rewards: dict[tuple[str, str], set[float]] = {}
    for t in made:
        commands = [
            c["function"]["arguments"]["command"] for m in t.messages for c in m.get("tool_calls", ())
        ]
        assert bool(t.patch) == any(c.startswith(("sed -i", "cat >> ")) for c in commands)
        is_cut = bool(t.turns) and t.turns[-1].finish_reason == "length"
        assert is_cut == (t.stop_reason is StopReason.TRUNCATED_TOKENS) == (t.num_sampled >= MAX_TOKENS)
        assert (t.grade is None) == ("grading" not in t.timings_s) == (not t.stop_reason.is_graded)
        assert (t.stop_reason is StopReason.TIMEOUT) == (t.timings_s.get("agent") == MAX_SECONDS)
        if t.grade:
            rewards.setdefault((t.task_id, t.patch), set()).add(t.grade.reward)
            assert (t.grade.reward == 1) == (set(t.grade.tests.values()) == {"passed"})
    assert {len(found) for found in rewards.values()} == {1}
    failures = {t.error for t in made if t.stop_reason is StopReason.FAILED_SETUP}
    assert failures == ({NO_SPACE} if name == "environment-failure" else set())


def test_demo_runs_never_write_over_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "collapse").mkdir()
    assert main(["demo-runs", str(tmp_path), "--only", "collapse"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert main(["demo-runs", str(tmp_path), "--only", "nope"]) == 2
    assert "expected one of healthy" in capsys.readouterr().err
