"""Writes example runs through the real writer.

Owns sizes, order and time. Invariant: the output is what the controller would have written, in the same
order; a run that is not live gets the times of its story, so that it is the same every day.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from lego_control.demo_runs.records import heldout_record, step_record
from lego_control.demo_runs.rollouts import MAX_SECONDS, MAX_TOKENS, Setting, make_rollout
from lego_control.demo_runs.session import Errand, errands
from lego_control.demo_runs.stories import STORIES, Scene, Story
from lego_control.demo_runs.tokens import tokenizer_json
from lego_core.config import WatchdogPolicy
from lego_core.health.watchdog import Watchdog
from lego_core.recipe_file import parse_recipe
from lego_core.store import Event, RunLayout, RunReader, RunWriter
from lego_core.store.append import write_whole
from lego_core.store.json_records import encode
from lego_core.types import StepRecord
from lego_harness.errors import UsageError
from lego_harness.output import writing

STEPS, GROUPS, GROUP_SIZE, POOL, HELDOUT = 24, 4, 8, 24, 96
_BEGIN = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def write_demo_runs(
    out: Path, names: tuple[str, ...] = (), steps: int = STEPS
) -> Iterator[tuple[Story, Path]]:
    """Write the named stories (all if none is named) into `out`, each completely or not at all. Raises UsageError
    for an unknown name and for a story that is there already."""
    stories = [find_story(name) for name in names] or list(STORIES)
    taken = [story.name for story in stories if (out / story.name).exists()]
    if taken:
        raise UsageError(f"{out / taken[0]} is there already: choose another folder, or remove it")
    write_tokenizer(out)
    for story in stories:
        # The writer syncs every piece; on tmpfs that costs nothing.
        with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
            run = write_story(Path(folder), story, steps=steps, model=out / "policy")
            _retime(run, story)
            shutil.copytree(run, out / story.name)
        yield story, out / story.name


def find_story(name: str) -> Story:
    """The story of that name."""
    for story in STORIES:
        if story.name == name:
            return story
    raise UsageError(f"no example run {name!r}, expected one of {', '.join(s.name for s in STORIES)}")


def write_tokenizer(out: Path) -> Path:
    """The simulated policy's folder, holding its tokenizer."""
    folder = out / "policy"
    with writing(out):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_bytes(tokenizer_json())
    return folder


def write_story(
    runs_dir: Path,
    story: Story,
    *,
    model: Path,
    steps: int = STEPS,
    pause: Callable[[], None] = lambda: None,
) -> Path:
    """One run from its first event to its last; `pause` is called between rollouts."""
    recipe = _recipe(story, runs_dir, steps, model)
    pool = errands(POOL)
    writer = RunWriter.create(runs_dir, parse_recipe(recipe))
    watchdog = Watchdog(writer, writer.layout.root, WatchdogPolicy())
    with writer:
        record: StepRecord | None = None
        for stage in ("tasks", "policy", "engine"):
            writer.event("stage", stage=stage, step=0)
        _evaluate(writer, story, 0, steps)
        for step in range(1, steps + 1):
            record = _step(writer, watchdog, story, step, steps, pool, pause)
            if step % 4 == 0 or step == steps:
                _evaluate(writer, story, step, steps)
        if story.ends != "finished" and record:
            graded = record.rollouts - sum(record.dropped.values()) + record.dropped.get("zero_variance", 0)
            writer.close(story.ends, story.reason.format(graded=graded, rollouts=record.rollouts))
    return writer.layout.root


def _recipe(story: Story, runs_dir: Path, steps: int, model: Path) -> dict[str, dict[str, object]]:
    return {
        "run": {"name": story.name, "runs_dir": str(runs_dir), "seed": story.seed},
        "model": {"path": str(model)},
        "tasks": {"num_train": POOL, "num_heldout": HELDOUT},
        "harness": {"name": story.harness},
        "rollout": {
            "groups_per_step": GROUPS,
            "group_size": GROUP_SIZE,
            "max_turns": 64,
            "max_tokens": MAX_TOKENS,
            "max_seconds": MAX_SECONDS,
        },
        "train": {"steps": steps},
        "eval": {"every": 4, "num_tasks": HELDOUT},
    }


def _step(
    writer: RunWriter,
    watchdog: Watchdog,
    story: Story,
    step: int,
    steps: int,
    pool: tuple[Errand, ...],
    pause: Callable[[], None],
) -> StepRecord:
    scene = story.scene(step / steps)
    for share, kind, fields in story.events:
        if step == max(1, round(share * steps)):
            writer.event(kind, step=step, **fields)
    writer.event("stage", stage="rollout", step=step)
    groups = [
        [make_rollout(*_spec(story, step, g, r, scene, pool)) for r in range(GROUP_SIZE)]
        for g in range(GROUPS)
    ]
    for trajectory in sorted(
        (t for group in groups for t in group), key=lambda t: t.timings_s.get("agent", 0.0)
    ):
        writer.append_trajectory(trajectory, step=step)
        pause()
    writer.event("stage", stage="train", step=step)
    record = step_record(step, groups, scene, _rng(story, step, 999))
    watchdog.after_step(record)
    writer.append_step(record)
    writer.event("checkpoint", step=step, path=f"checkpoints/{step:05d}")
    return record


def _spec(
    story: Story, step: int, group: int, rollout: int, scene: Scene, pool: tuple[Errand, ...]
) -> tuple[str, Errand, Setting, np.random.Generator]:
    place = (step - 1) * GROUPS + group
    setting = Setting(scene=scene, harness=story.harness, version=step - 1, epoch=place // POOL)
    name = f"s{step:05d}.g{group:02d}.r{rollout}"
    return name, pool[place % POOL], setting, _rng(story, step, group * GROUP_SIZE + rollout)


def _evaluate(writer: RunWriter, story: Story, step: int, steps: int) -> None:
    writer.event("stage", stage="evaluate", step=step)
    writer.append_heldout(heldout_record(step, story.scene(step / steps), HELDOUT, _rng(story, step, 998)))


def _rng(story: Story, step: int, number: int) -> np.random.Generator:
    return np.random.default_rng([story.seed, step, number])


def _scratch() -> Path | None:
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else None


def _retime(run: Path, story: Story) -> None:
    """Give a finished run the times of its story instead of those of its writing."""
    reader, layout = RunReader(run), RunLayout(root=run)
    begin = _BEGIN + timedelta(days=story.seed)
    clock, lines = begin.timestamp(), list[bytes]()
    for event in reader.events():
        clock += {"stage": 18.0, "checkpoint": 40.0}.get(event.kind, 1.0)
        lines.append(
            encode(Event(time=clock, kind=event.kind, fields={**event.fields, **_pid(event)})) + b"\n"
        )
    info = dataclasses.replace(
        reader.info(), created=begin.isoformat(timespec="microseconds"), versions={"lego-rl": "simulated"}
    )
    write_whole(layout.events, b"".join(lines))
    write_whole(layout.info, encode(info) + b"\n")


def _pid(event: Event) -> dict[str, int]:
    return {"pid": 1} if "pid" in event.fields else {}


def write_live(out: Path, name: str, *, steps: int, seconds_per_step: float) -> Path:
    """Write a run at the pace of a live one."""
    story, pause_s = find_story(name), seconds_per_step / (GROUPS * GROUP_SIZE)
    model = write_tokenizer(out)
    return write_story(out, story, model=model, steps=steps, pause=lambda: time.sleep(pause_s))
