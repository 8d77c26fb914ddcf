"""What the person is looking at, shared by all screens."""

from __future__ import annotations

from dataclasses import dataclass, field

from lego_tui.feed.details import Reading
from lego_tui.feed.fleet import Fleet
from lego_tui.feed.run import RunFeed

METRIC = "reward_mean"
"""What a run opens on, with the held-out rate beside it."""


@dataclass(kw_only=True, slots=True)
class State:
    """Chosen run, step, group, rollout, metric and how its chart is drawn."""

    fleet: Fleet
    allow_control: bool = False
    step: int | None = None
    """None while the newest step is followed."""
    group: str = ""
    rollout: str = ""
    metric: str = METRIC
    is_log: bool = False
    is_smooth: bool = False
    marked: set[str] = field(default_factory=set[str])
    pinned: set[str] = field(default_factory=set[str])
    acknowledged: set[str] = field(default_factory=set[str])
    _readings: dict[str, Reading] = field(default_factory=dict[str, Reading])

    @property
    def run(self) -> RunFeed | None:
        return self.fleet.run

    @property
    def step_now(self) -> int | None:
        """The chosen step, or the newest that is known."""
        if self.step is not None:
            return self.step
        run = self.run
        return run.steps.steps[-1] if run and len(run.steps) else None

    @property
    def reading(self) -> Reading | None:
        """The opened rollouts of the chosen run."""
        run = self.run
        if run is None:
            return None
        if run.name not in self._readings:
            self._readings.clear()
            self._readings[run.name] = Reading(run)
        return self._readings[run.name]

    def choose_run(self, name: str) -> None:
        """Look at another run, from its newest step and with nothing of what was chosen in the one before."""
        if name != self.fleet.chosen:
            self.fleet.chosen = name
            self.step, self.group, self.rollout = None, "", ""
            self.metric, self.is_log, self.is_smooth = METRIC, False, False
