"""What is behind the controller's protocols in a simulation: rollouts, engines, trainer and store.

They take virtual time and compute nothing. Invariant: a simulated token carries the version the
engines held when it was sampled, so that staleness is measured and not assumed. The store keeps what
the real one would write, in memory and without the arrays.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from lego_core.inference.busy import BusyClock
from lego_core.store.layout import RunLayout
from lego_core.store.mailbox import Request
from lego_core.types import HeldoutRecord, Sample, StepRecord, TrainMetrics
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Branch, Grade, StopReason, Trajectory, Turn

TURNS = 4
"""Engine calls of a simulated rollout, one token each: enough to cross versions."""


class SimulatedEngines:
    """Hold a version; a publish takes `publish_s`."""

    def __init__(self, publish_s: float) -> None:
        self._publish_s = publish_s
        self.version = 0
        self.busy = BusyClock(asyncio.get_running_loop().time)

    async def publish(self, weights: Path, version: int) -> None:
        await asyncio.sleep(self._publish_s)
        self.version = version

    async def busy_s(self) -> float:
        return self.busy.seconds()

    async def pids(self) -> dict[str, int]:
        return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedRollouts:
    """At most `slots` at a time; how long one takes is a function of its spec alone."""

    engines: SimulatedEngines
    duration_s: Callable[[RolloutSpec], float]
    slots: asyncio.Semaphore

    async def run(self, spec: RolloutSpec) -> Trajectory:
        async with self.slots:
            duration_s = self.duration_s(spec)
            turns: list[Turn] = []
            for index in range(TURNS):
                with self.engines.busy:
                    await asyncio.sleep(duration_s / TURNS)
                turns.append(_turn(index, self.engines.version))
        return _trajectory(spec, tuple(turns), duration_s)


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedTrainer:
    """A step, a checkpoint and an export take constant time; remembers what it was given."""

    step_s: float
    checkpoint_s: float = 0.0
    trained: list[str] = field(default_factory=list[str])

    async def train_step(self, samples: Sequence[Sample], step: int) -> TrainMetrics:
        await asyncio.sleep(self.step_s)
        self.trained.extend(dict.fromkeys(s.rollout_id for s in samples))
        return _metrics(len(samples))

    async def save_checkpoint(self, directory: Path, state: dict[str, Any]) -> None:
        await asyncio.sleep(self.checkpoint_s)

    async def export(self, path: Path) -> None:
        pass


@dataclass(frozen=True, kw_only=True, slots=True)
class Taken:
    """What is kept of a recorded rollout."""

    step: int | None
    """It was for; None in an evaluation."""
    seconds: float
    versions: frozenset[int]
    """That sampled it."""


class SilentMailbox:
    """Nobody asks anything of a simulated run."""

    def new(self) -> tuple[Request, ...]:
        return ()


class MemoryStore:
    """A run store without a disk."""

    def __init__(self) -> None:
        self.mailbox = SilentMailbox()
        self.layout = RunLayout(root=Path("/nonexistent"))
        self.rollouts: dict[str, Taken] = {}
        self.steps: list[StepRecord] = []
        self.heldout: list[HeldoutRecord] = []
        self.events: Counter[str] = Counter()

    def append_trajectory(self, trajectory: Trajectory, *, step: int | None) -> None:
        assert trajectory.id not in self.rollouts, f"{trajectory.id} would count twice"
        self.rollouts[trajectory.id] = Taken(
            step=step,
            seconds=trajectory.timings_s["agent"],
            versions=frozenset(turn.policy_version for turn in trajectory.turns),
        )

    def append_step(self, record: StepRecord) -> None:
        self.steps.append(record)

    def append_heldout(self, record: HeldoutRecord) -> None:
        self.heldout.append(record)

    def event(self, kind: str, **fields: Any) -> None:
        self.events[kind] += 1


_CONTEXT = np.zeros(1, np.int32)
_ONE_LOGPROB = np.full(1, -0.5, np.float32)


def _turn(index: int, version: int) -> Turn:
    return Turn(
        index=index,
        context_ids=_CONTEXT,
        sampled_ids=_CONTEXT,
        logprobs=_ONE_LOGPROB,
        routes=None,
        routes_from=0,
        policy_version=version,
        finish_reason="stop",
        fingerprint="",
        started_s=0.0,
        ended_s=0.0,
    )


def _trajectory(spec: RolloutSpec, turns: tuple[Turn, ...], duration_s: float) -> Trajectory:
    length = 1 + len(turns)
    mask = np.arange(length) > 0
    branch = Branch(
        ids=np.zeros(length, np.int32),
        mask=mask,
        logprobs=np.where(mask, np.float32(-0.5), np.float32(0)),
        versions=np.array([-1, *(turn.policy_version for turn in turns)], np.int32),
        routes=None,
    )
    reward = float(random.Random(f"reward/{spec.id}").random() < 0.5)
    return Trajectory(
        id=spec.id,
        task_id=spec.task.id,
        epoch=spec.epoch,
        harness="simulated",
        sandbox="simulated",
        stop_reason=StopReason.COMPLETED,
        error="",
        grade=Grade(reward=reward, tests={}, duration_s=0.0),
        turns=turns,
        branches=(branch,),
        messages=(),
        patch="",
        timings_s={"agent": duration_s},
    )


def _metrics(num_samples: int) -> TrainMetrics:
    return TrainMetrics(
        loss=0.0,
        grad_norm=0.0,
        clip_fraction=0.0,
        kl_loss=0.0,
        entropy=0.0,
        pearson_r=None,
        mean_abs_dlogp=0.0,
        k3=0.0,
        routing_coverage=0.0,
        expert_overlap=None,
        top1_agreement=None,
        trained_tokens=num_samples * TURNS,
    )
