"""What a check is and what it is given.

A check is a function of a `Ground`, plain or async. It returns its evidence, or raises: `Broken` if what it looks at
is wrong, `Skip` if it does not apply here; any other LegoError means that the check could not be carried out. It
depends on no other check except those it names in `needs`: if one of these did not pass it is skipped, so that
each fault is reported once, by the check that is about it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lego_core.config import Recipe
    from lego_harness.sandbox.base import SandboxBackend
    from lego_harness.types import Task

PROFILES = ("smoke", "parity", "full")
"""Each does what the ones before it do, and more."""
SAMPLE = {"smoke": 4, "parity": 32, "full": 10_000}
"""Tasks that are tried."""


class Broken(Exception):
    """What the check looks at is wrong."""

    def __init__(self, evidence: str, remedy: str) -> None:
        super().__init__(evidence)
        self.evidence, self.remedy = evidence, remedy


class Skip(Exception):
    """The check does not apply; its text says why."""


@dataclass(kw_only=True, slots=True)
class Ground:
    """What checks work with; made once, never changed afterwards."""

    recipe: Recipe
    profile: str
    scratch: Path
    """A folder for this validation, removed after it."""
    backend: SandboxBackend
    proofs: Callable[[Ground], Awaitable[dict[str, Any]]]
    """The numeric proofs of the core, by name; run once, in their own process."""
    made: dict[str, Any] = field(default_factory=dict[str, Any])
    """Results that several checks use, made by the first of them."""

    @property
    def sample(self) -> int:
        return SAMPLE[self.profile]

    def pool(self) -> Path:
        """The task folders; a generated pool is written first."""
        if self.recipe.tasks.pool != "synth":
            return Path(self.recipe.tasks.pool)
        from lego_harness.tasks.synth import write_pool

        folder = self.scratch / "pool"
        if not folder.is_dir():
            sizes = self.recipe.tasks
            write_pool(
                folder, num_train=sizes.num_train, num_heldout=sizes.num_heldout, seed=self.recipe.run.seed
            )
        return folder

    def tasks(self) -> tuple[Task, ...]:
        """Every task of the pool. Raises UsageError."""
        from lego_harness.tasks.folder import load_pool

        if "tasks" not in self.made:
            self.made["tasks"] = tuple(load_pool(self.pool()))
        return self.made["tasks"]

    def some_tasks(self) -> tuple[Task, ...]:
        """As many tasks as the profile tries, from all over the pool."""
        tasks = self.tasks()
        stride = max(len(tasks) // self.sample, 1)
        return tasks[::stride][: self.sample]


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One named check."""

    name: str
    run: Callable[[Ground], str | Awaitable[str]]
    """Its evidence; called in a thread."""
    needs: tuple[str, ...] = ()
    profile: str = "smoke"
    """The first profile that runs it."""
