"""One run directory, followed.

`poll` takes what was added, a bounded piece of each file, and may be called from a thread of its own;
everything else only looks at what is there. Invariant: whatever the files contain, no call raises; what
could not be understood is counted and named in `complaints`.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from lego_core.changes import changed
from lego_core.health.watchdog import HEARTBEAT
from lego_core.store.labels import Label, parse_label
from lego_core.store.layout import FORMAT, RunLayout
from lego_core.store.lock import is_locked
from lego_tui.feed.index import Entry, Index
from lego_tui.feed.lone import repaired
from lego_tui.feed.measured import Measured, diagnosis_of
from lego_tui.feed.steps import Columns
from lego_tui.feed.tail import Tail
from lego_tui.feed.trajectory import Rollout, load_rollout
from lego_tui.safe import one_line

T = TypeVar("T")
_STATUS_EVENTS = ("started", "finished", "failed", "interrupted")
_MAX_COMPLAINTS = 20
_MAX_EVENTS = 20_000


class EventLine(msgspec.Struct, gc=False):
    """One line of events.jsonl."""

    time: float = 0.0
    kind: str = ""
    fields: dict[str, Any] = {}


class _Info(msgspec.Struct):
    format: int = 0
    created: str = ""
    recipe: dict[str, Any] = {}
    versions: dict[str, Any] = {}


class RunFeed:
    """What is known of a run so far."""

    def __init__(self, root: Path) -> None:
        self.layout = RunLayout(root=root)
        self.name = root.name
        self.steps, self.heldout, self.index = Columns(rewinds=True), Columns(), Index()
        self._events: deque[EventLine] = deque(maxlen=_MAX_EVENTS)
        self.num_events = 0
        """How many were read; the oldest are no longer in `events`."""
        self.labels: dict[str, Label] = {}
        """What people said, the newest by rollout."""
        self.complaints: deque[str] = deque(maxlen=_MAX_COMPLAINTS)
        self.num_broken = 0
        self._troubles: set[str] = set()
        self.changed_at = 0.0
        """Monotonic seconds of the last poll that brought something."""
        self.version = 0
        self.index_was_read = False
        """False until the rollouts were asked for once: a run that is only listed does without."""
        self._info = _Info()
        self._info_is_read = False
        self._event_decoder = msgspec.json.Decoder(EventLine)
        self._tails = {
            "steps": Tail(self.layout.steps),
            "heldout": Tail(self.layout.heldout),
            "events": Tail(self.layout.events),
            "labels": Tail(self.layout.labels),
        }
        self._index_tail = Tail(self.layout.index)
        self._is_locked = False
        self._counted: dict[str, tuple[tuple[int, int], Any]] = {}
        self._status_event: EventLine | None = None
        self._started: list[dict[str, Any]] = []
        """Fields of each start and resume."""
        self._measured, self._num_heartbeats = Measured(), 0
        self._judged: tuple[int, int, int] = (-1, -1, -1)
        self.diagnosis = diagnosis_of(self._measured, (), self.heldout, root, {})
        """What the detectors say at the last step that was read."""

    # --- following --------------------------------------------------------------------------

    def poll(self, *, with_index: bool = True) -> bool:
        """Read what was added; True if there was anything."""
        self._read_info()
        locked = self._look_at_lock()  # first: what a run that has ended has written is read now
        takers: dict[str, Callable[[bytes], object]] = {
            "steps": lambda line: self._measured.add(*self.steps.add(line)),
            "heldout": self.heldout.add,
            "events": self._add_event,
            "labels": self._add_label,
        }
        found = sum(self._take(tail, takers[name]) for name, tail in self._tails.items())
        if with_index:
            self.index_was_read = True
            found += self._take(self._index_tail, self.index.add)
        self._judge()
        if found or locked != self._is_locked:
            self._is_locked = locked
            self.changed_at = time.monotonic()
            self.version += 1
            return True
        return False

    def read_all(self, *, with_index: bool = True) -> None:
        """Take everything that is there now."""
        self.poll(with_index=with_index)
        while self.is_behind:
            self.poll(with_index=with_index)

    @property
    def newest_step(self) -> int | None:
        return self.steps.steps[-1] if len(self.steps) else None

    @property
    def is_behind(self) -> bool:
        """True while there is more to read than one poll takes."""
        return self._index_tail.is_behind or any(tail.is_behind for tail in self._tails.values())

    def _take(self, tail: Tail, add: Callable[[bytes], object]) -> int:
        lines = tail.read()
        if tail.trouble and tail.trouble not in self._troubles:
            self._troubles.add(tail.trouble)
            self._complain(tail.trouble)
        first = tail.number - len(lines) + 1
        for number, line in enumerate(lines, first):
            try:
                _add(add, line)
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                self._complain(f"{tail.path.name}:{number}: {error}")
        return len(lines)

    def _judge(self) -> None:
        """Ask the detectors again if there is something they have not seen."""
        seen = self.steps.version, self.heldout.version, self._num_heartbeats
        if seen != self._judged:
            self._judged = seen
            self.diagnosis = diagnosis_of(
                self._measured, self._events, self.heldout, self.layout.root, self.recipe
            )

    def _complain(self, text: str) -> None:
        self.num_broken += 1
        self.complaints.append(text[:300])

    def _add_event(self, line: bytes) -> None:
        event = self._event_decoder.decode(line)
        self._events.append(event)
        self.num_events += 1
        self._num_heartbeats += event.kind == HEARTBEAT
        if event.kind in _STATUS_EVENTS:
            self._status_event = event
        if event.kind == "started":
            self._started.append(event.fields)

    def _add_label(self, line: bytes) -> None:
        if label := parse_label(line):
            self.labels[label.rollout] = label

    def _read_info(self) -> None:
        if self._info_is_read:
            return
        try:
            self._info = msgspec.json.decode(self.layout.info.read_bytes(), type=_Info)
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as error:
            self._complain(f"run.json: {error}")
        self._info_is_read = True

    def _look_at_lock(self) -> bool:
        try:
            return is_locked(self.layout.lock)
        except OSError:
            return False

    # --- what is known ----------------------------------------------------------------------

    @property
    def status(self) -> str:
        """`running`, `finished`, `failed` or `interrupted`; `unreadable` without a run.json."""
        if self._is_locked:
            return "running"
        if not self.layout.info.exists():
            return "unreadable"
        last = self._status_event
        return last.kind if last and last.kind != "started" else "interrupted"

    @property
    def reason(self) -> str:
        """Why the run ended, if it said so."""
        event = self._status_event
        return str(event.fields.get("reason", "")) if event and event.kind != "started" else ""

    @property
    def newer(self) -> str:
        """A sentence if another release wrote the run."""
        if self._info_is_read and self._info.format not in (0, FORMAT):
            return f"layout {self._info.format} is not {FORMAT}, which this release knows: shown as far as understood"
        return ""

    @property
    def created(self) -> str:
        return self._info.created

    @property
    def total_steps(self) -> int:
        value = self.knob("train", "steps")
        return value if isinstance(value, int) else 0

    def knob(self, section: str, key: str) -> Any:
        """A key of the recipe; None when absent."""
        table = self.recipe.get(section)
        return cast(dict[str, Any], table).get(key) if isinstance(table, dict) else None

    @property
    def recipe(self) -> dict[str, Any]:
        """The one that holds."""
        return changed(self._info.recipe, self._started)

    @property
    def stage(self) -> EventLine | None:
        """What the run is doing, while it runs."""
        if not self._is_locked:
            return None
        return next((event for event in reversed(self.events) if event.kind == "stage"), None)

    @property
    def events(self) -> list[EventLine]:
        """The newest events, oldest first: a copy, since a thread may add some while one looks."""
        return list(self._events)

    def index_at_step(self, key: str, count: Callable[[Index], T]) -> T:
        """The result of `count` over all rollouts: recomputed with each step, not with each rollout."""
        is_growing = self._is_locked and self.index_was_read and not self.is_behind and len(self.steps) > 0
        of_step = self.steps.version, 0 if is_growing else len(self.index)
        kept = self._counted.get(key)
        if kept is None or kept[0] != of_step:
            kept = self._counted[key] = of_step, count(self.index)
        return cast(T, kept[1])

    def unread(self, num_rollouts: int) -> str:
        """What could not be read, in a sentence, with the `num_rollouts` that failed to open; empty if everything
        was read."""
        if not (self.num_broken or num_rollouts):
            return ""
        told = f"{self.num_broken} lines or files and {num_rollouts} rollouts could not be read"
        return told + (f", such as {one_line(self.complaints[-1])}" if self.complaints else "")

    def load(self, entry: Entry) -> Rollout:
        """One rollout, opened. Never raises: a broken frame is a rollout with a complaint."""
        return load_rollout(self.layout.trajectories / entry.file, entry)


def _add(add: Callable[[bytes], object], line: bytes) -> None:
    """Pass a line on; if it is refused for half characters, pass it once more without them."""
    try:
        add(line)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        if (whole := repaired(line)) == line:
            raise
        add(whole)
