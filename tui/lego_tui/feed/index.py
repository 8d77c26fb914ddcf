"""The rollouts of a run, as columns of a few bytes each: 320,000 fit in some 50 MB.

Owns the shapes of handles (`s00012.g03.r5~1`: step, group, rollout, attempt) and what can be asked of all
rollouts without opening one.
"""

from __future__ import annotations

import math
import re
from array import array
from collections import defaultdict
from dataclasses import dataclass

import msgspec
import numpy as np

from lego_tui.feed.steps import MAX_STEP
from lego_tui.feed.tally import Tally, tally
from lego_tui.safe import one_line

_HANDLE = re.compile(r"[se](\d+)\.([gt]\d+)(?:\.r(\d+))?(?:~(\d+))?$")
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_MOST = 2**62
"""A number that a column cannot hold is refused before any column has the line, so that all stay in step."""
EVALUATION = -1
"""Step of a rollout that trains nothing."""


class _Line(msgspec.Struct, gc=False):
    id: str
    file: str
    offset: int
    length: int
    step: int | None = None
    task: str = ""
    stop_reason: str = ""
    reward: float | str | None = None
    sampled: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One rollout as the index knows it."""

    row: int
    id: str
    file: str
    offset: int
    length: int
    step: int
    """EVALUATION where it trains nothing."""
    task: str
    stop_reason: str
    reward: float
    """NaN without a grade."""
    sampled: int

    @property
    def group(self) -> str:
        """`g03`, or the whole id if it has another form."""
        match = _HANDLE.match(self.id)
        return match[2] if match else self.id

    @property
    def rollout(self) -> int:
        match = _HANDLE.match(self.id)
        return int(match[3] or 0) if match else 0

    @property
    def is_failure(self) -> bool:
        return _is_failure(self.stop_reason)

    @property
    def is_truncated(self) -> bool:
        return self.stop_reason.startswith("truncated")


class Names:
    """Strings that repeat, as small numbers."""

    def __init__(self) -> None:
        self.list: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, name: str) -> int:
        found = self._codes.get(name)
        if found is None:
            found = self._codes[name] = len(self.list)
            self.list.append(name)
        return found


class Index:
    """Every rollout of a run."""

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(_Line)
        self.ids: list[str] = []
        self.tasks, self.stops, self._files = Names(), Names(), Names()
        self._file, self._task, self._stop = array("i"), array("i"), array("i")
        self._offset, self._length = array("q"), array("q")
        self._step, self._sampled = array("i"), array("q")
        self._reward = array("d")
        self._of_step: defaultdict[int, array[int]] = defaultdict(lambda: array("i"))
        self._of_id: dict[str, int] = {}
        self._failed = array("i")

    def __len__(self) -> int:
        return len(self._reward)

    def add(self, line: bytes) -> None:
        """Take a line. Raises ValueError if it is not an entry."""
        entry = self._decoder.decode(line)
        if entry.offset < 0 or entry.length <= 0 or "/" in entry.file:
            raise ValueError(f"points at {entry.length} bytes at {entry.offset} of {entry.file!r}")
        step = EVALUATION if entry.step is None else entry.step
        if not -1 <= step < MAX_STEP or max(entry.offset, entry.length, abs(entry.sampled)) > _MOST:
            raise ValueError(f"a number beyond every run: step {step}, sampled {entry.sampled}")
        if not entry.id.isprintable():
            raise ValueError(f"the id {one_line(entry.id, 60)} is no name")
        ended = entry.stop_reason
        stop_reason = ended if ended.isprintable() else one_line(ended, 40)
        row = len(self._reward)
        self._of_id[entry.id] = row
        self.ids.append(entry.id)
        self._file.append(self._files.code(entry.file))
        self._task.append(self.tasks.code(entry.task))
        self._stop.append(self.stops.code(stop_reason))
        self._offset.append(entry.offset)
        self._length.append(entry.length)
        self._step.append(step)
        self._sampled.append(entry.sampled)
        reward = entry.reward
        self._reward.append(
            math.nan
            if reward is None
            else _WORDS.get(reward, math.nan)
            if isinstance(reward, str)
            else reward
        )
        self._of_step[step].append(row)
        if _is_failure(stop_reason):
            self._failed.append(row)

    def entry(self, row: int) -> Entry:
        return Entry(
            row=row,
            id=self.ids[row],
            file=self._files.list[self._file[row]],
            offset=self._offset[row],
            length=self._length[row],
            step=self._step[row],
            task=self.tasks.list[self._task[row]],
            stop_reason=self.stops.list[self._stop[row]],
            reward=self._reward[row],
            sampled=self._sampled[row],
        )

    def find(self, trajectory_id: str) -> Entry | None:
        """The rollout of that id."""
        row = self._of_id.get(trajectory_id)
        return None if row is None else self.entry(row)

    def of_step(self, step: int) -> list[Entry]:
        """The rollouts of a step in the order of recording; of all evaluations for EVALUATION."""
        return [self.entry(row) for row in self._of_step.get(step, ())]

    def num_of_step(self, step: int) -> int:
        """How many rollouts of a step are known."""
        return len(self._of_step.get(step, ()))

    def groups(self, step: int) -> dict[str, list[Entry]]:
        """Rollouts of a step by group, in order; a failed attempt comes before the one that replaced it."""
        found: dict[str, list[Entry]] = {}
        for entry in self.of_step(step):
            found.setdefault(entry.group, []).append(entry)
        return {name: sorted(found[name], key=lambda e: (e.rollout, e.id)) for name in sorted(found)}

    def by_task(self) -> Tally:
        """Training rollouts by task, a place in `tasks`, and step."""
        return self._tally(self._task)

    def by_ending(self) -> Tally:
        """Training rollouts by how they ended, a place in `stops`, and step."""
        return self._tally(self._stop)

    def _tally(self, what: array[int]) -> Tally:
        count = len(self)
        whats, steps = (np.array(part[:count], np.int64) for part in (what, self._step))
        return tally(whats, steps, np.array(self._reward[:count]))

    def failures(self, limit: int) -> list[Entry]:
        """The newest rollouts that something outside failed."""
        return [self.entry(row) for row in reversed(self._failed[-limit:])]


def _is_failure(stop_reason: str) -> bool:
    return stop_reason.startswith("failed") or stop_reason in ("cancelled", "timeout")
