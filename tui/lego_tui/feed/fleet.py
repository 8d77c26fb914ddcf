"""The runs of a folder, newest first.

The chosen run and the compared ones are polled completely, the others without their trajectories, so that a folder
of many runs costs little. A folder that is itself a run is a fleet of one.
"""

from __future__ import annotations

import time
from pathlib import Path

from lego_tui.feed.run import RunFeed

_LOOK_EVERY_S = 5.0
"""How often the folder is listed."""


class Fleet:
    """Every run of a folder, followed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.runs: dict[str, RunFeed] = {}
        self.chosen = ""
        self.compared: frozenset[str] = frozenset()
        """Runs that are read completely, in addition to the chosen one."""
        self.trouble = ""
        self._listed_at = -_LOOK_EVERY_S
        if (root / "run.json").exists():
            self.runs[root.name] = RunFeed(root)
            self.chosen = root.name

    @property
    def is_one_run(self) -> bool:
        return (self.root / "run.json").exists()

    @property
    def run(self) -> RunFeed | None:
        """The chosen run."""
        return self.runs.get(self.chosen)

    def poll(self) -> bool:
        """Read what was added; True if there was anything."""
        changed = self._list()
        run = self.run
        if run is not None:
            changed |= run.poll()
        for name, other in list(self.runs.items()):
            if name != self.chosen:
                changed |= other.poll(with_index=name in self.compared)
        return changed

    @property
    def is_behind(self) -> bool:
        whole = [run for name in (self.chosen, *self.compared) if (run := self.runs.get(name))]
        if not all(run.index_was_read for run in whole):
            return True
        return any(run.is_behind for run in list(self.runs.values()))

    def _list(self) -> bool:
        now = time.monotonic()
        if self.is_one_run or now - self._listed_at < _LOOK_EVERY_S:
            return False
        self._listed_at = now
        try:
            found = [path.parent for path in self.root.glob("*/run.json")]
            self.trouble = "" if self.root.is_dir() else f"{self.root} is no folder"
        except OSError as error:
            self.trouble = f"{self.root}: {error.strerror}"
            return True
        new = [path for path in found if path.name not in self.runs]
        for path in new:
            self.runs[path.name] = RunFeed(path)
        return bool(new)
