"""Which rollouts a step or an evaluation consists of.

Owns the order of tasks and the seeds. Invariant: a pure function of recipe, pool, step and the tasks that
were quarantined by steps complete before its rollouts may begin, so that a resumed run asks for
exactly the rollouts of an undisturbed one. Runs nothing.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lego_core.config import Recipe
from lego_core.rollouts.quarantine import Quarantine
from lego_harness.errors import SetupError
from lego_harness.rollout import RolloutSpec
from lego_harness.types import Budget, Sampling, Task


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupSpec:
    """One task's sibling rollouts in one step."""

    id: str
    """`s00012.g03`"""
    task: Task
    rollouts: tuple[RolloutSpec, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class RolloutSource:
    """Deterministic stream over a task pool."""

    recipe: Recipe
    train: Sequence[Task]
    heldout: Sequence[Task]
    quarantine: Quarantine = field(default_factory=Quarantine)
    """Tasks not to train on; it grows while the run goes on."""

    def step(self, step: int) -> tuple[GroupSpec, ...]:
        """The groups of 1-based `step`: the next `groups_per_step` tasks of shuffled epochs, with another task in
        place of a quarantined one. Raises SetupError when all are quarantined."""
        count = self.recipe.rollout.groups_per_step
        first = (step - 1) * count
        return tuple(self._group(step, g, first + g) for g in range(count))

    def evaluation(self, step: int) -> tuple[RolloutSpec, ...]:
        """`eval.num_samples` rollouts per held-out task, those of a task together. Seeds do not depend on `step`:
        two evaluations use common random numbers, so that their difference comes from the policy and not from
        sampling."""
        config = self.recipe.eval
        return tuple(
            self._spec(f"e{step:05d}.t{i:03d}.r{r}", task, 0, config.temperature, _eval_seed(task, r))
            for i, task in enumerate(self.heldout[: config.num_tasks])
            for r in range(config.num_samples)
        )

    def order(self, step: int) -> dict[str, Any]:
        """What a checkpoint of `step` says about the data, to check on a resume that it is still the same."""
        names = json.dumps([[task.id for task in tasks] for tasks in (self.train, self.heldout)])
        return {
            "groups_taken": step * self.recipe.rollout.groups_per_step,
            "seed": self.recipe.run.seed,
            "tasks": hashlib.sha256(names.encode()).hexdigest(),
        }

    def _group(self, step: int, g: int, position: int) -> GroupSpec:
        epoch, offset = divmod(position, len(self.train))
        task = self._allowed(self._epoch(epoch)[offset], step, position)
        group = f"s{step:05d}.g{g:02d}"
        ids = [f"{group}.r{r}" for r in range(self.recipe.rollout.group_size)]
        temperature = self.recipe.rollout.temperature
        return GroupSpec(
            id=group, task=task, rollouts=tuple(self._spec(i, task, epoch, temperature, i) for i in ids)
        )

    def _allowed(self, task: Task, step: int, position: int) -> Task:
        """The task itself, or another to train on in its place: all others keep their turns. What concurrent
        steps show comes too late for this one, whether or not it is known by now."""
        known_before = step - self.recipe.rollout.max_staleness
        allowed = self.quarantine.allowed(self.train, step=known_before)
        if not allowed:
            raise SetupError(
                f"all {len(self.train)} training tasks are quarantined before step {step}, expected one whose "
                "reward means something; events.jsonl has the reasons (task_quarantined): repair the tasks"
            )
        if any(one.id == task.id for one in allowed):
            return task
        return random.Random(f"{self.recipe.run.seed}/instead/{position}").choice(allowed)

    def _epoch(self, epoch: int) -> list[Task]:
        order = list(self.train)
        random.Random(f"{self.recipe.run.seed}/epoch/{epoch}").shuffle(order)
        return order

    def _spec(self, rollout_id: str, task: Task, epoch: int, temperature: float, seed_of: str) -> RolloutSpec:
        config = self.recipe.rollout
        sampling = Sampling(
            temperature=temperature,
            top_p=config.top_p,
            max_tokens=config.max_tokens_per_turn,
            seed=_seed(self.recipe.run.seed, seed_of),
        )
        max_seconds = config.max_seconds
        if seed_of.startswith("eval/"):
            max_seconds = self.recipe.eval.max_seconds or max_seconds
        budget = Budget(max_turns=config.max_turns, max_tokens=config.max_tokens, max_seconds=max_seconds)
        return RolloutSpec(id=rollout_id, task=task, epoch=epoch, sampling=sampling, budget=budget)


def _eval_seed(task: Task, attempt: int) -> str:
    return f"eval/{task.id}/{attempt}" if attempt else f"eval/{task.id}"


def _seed(run_seed: int, name: str) -> int:
    digest = hashlib.sha256(f"{run_seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:4], "little") & 0x7FFFFFFF
