"""A run as lines, for those without a full-screen display: what happens is printed when it happens.

Owns the wording of a line and its JSON. Follows until the run has ended or the reader goes away.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from rich.style import Style
from rich.text import Text

from lego_core.store.json_records import to_json
from lego_tui.feed.run import RunFeed
from lego_tui.health import findings, level
from lego_tui.metrics import series, show
from lego_tui.palette import GLYPHS, palette
from lego_tui.safe import one_line
from lego_tui.words import clock, facts

POLL_S = 0.5
_UNTOLD = ("stage", "checkpoint", "finished", "failed", "interrupted")
"""Not printed: stages and checkpoints are too many, and how the run ended is said at the end."""
_SHOWN = ("reward_mean", "entropy", "kl_loss", "grad_norm", "pearson_r", "expert_overlap")


@dataclass(frozen=True, kw_only=True, slots=True)
class News:
    """One thing that happened."""

    kind: str
    """`step`, `heldout`, `finding`, `end` or the kind of an event."""
    fields: dict[str, Any]
    time: float | None = None

    def as_json(self) -> str:
        """One line of strict JSON."""
        when = {"time": self.time} if self.time is not None else {}
        return json.dumps(
            {"kind": self.kind, **when, **{k: _plain(v) for k, v in self.fields.items()}}, default=str
        )


def news(
    run: RunFeed, *, last: int | None, follow: bool, wait: Callable[[float], None] = time.sleep
) -> Iterator[News]:
    """What happened in a run (its `last` steps and what belongs to them), then what happens."""
    run.read_all(with_index=False)
    first = 0 if last is None else max(len(run.steps) - last, 0)
    seen, told = _Seen(steps=first), set[str]()
    if last is not None:
        seen.events, seen.heldout = max(run.num_events - 2 * last - 2, 0), max(len(run.heldout) - 1, 0)
    while True:
        yield from seen.new(run)
        for finding in findings(run):
            if finding.key not in told:
                told.add(finding.key)
                yield News(kind="finding", fields={"level": level(finding), **to_json(finding)})
        if not follow or run.status != "running":
            break
        wait(POLL_S)
        run.read_all(with_index=False)
    yield News(kind="end", fields={"status": run.status, "reason": run.reason, "steps": len(run.steps)})


@dataclass(slots=True)
class _Seen:
    steps: int = 0
    heldout: int = 0
    events: int = 0

    def new(self, run: RunFeed) -> Iterator[News]:
        events, total = run.events, run.num_events
        for event in events[max(len(events) - (total - self.events), 0) :]:  # older ones are forgotten
            if event.kind not in _UNTOLD:
                yield News(kind=event.kind, fields=event.fields, time=event.time)
        for row in range(min(self.steps, len(run.steps)), len(run.steps)):  # fewer: a resume threw some away
            step = run.steps.steps[row]
            yield News(
                kind="step",
                fields={"step": step, **{n: run.steps.at(step, n) for n in run.steps.names if n != "step"}},
            )
        for row in range(self.heldout, len(run.heldout)):
            step = run.heldout.steps[row]
            yield News(
                kind="heldout", fields={n: run.heldout.at(step, n) for n in ("step", "solve_rate", "n")}
            )
        self.events, self.steps, self.heldout = total, len(run.steps), len(run.heldout)


def line(item: News, run: RunFeed) -> Text:
    """A person's line."""
    look = palette("lego-dark")
    text = Text(no_wrap=True, end="")
    fields = item.fields
    if item.kind == "step":
        text.append(f"step {fields['step']:>4}/{run.total_steps or '?'}", look.strong)
        for name in _SHOWN:
            if name in fields and fields[name] == fields[name]:
                text.append(f"  {name.removesuffix('_mean')} ", look.dim)
                text.append(show(name, fields[name]), look.text)
        failed = series(run, "failed share")
        row = run.steps.steps.index(fields["step"])
        if failed[row] > 0:
            text.append(f"  failed {failed[row]:.0%}", look.bad)
        return text
    if item.kind == "heldout":
        text.append(f"held-out at step {fields['step']:.0f}: ", look.dim)
        text.append(f"{show('heldout', fields['solve_rate'])} of {fields['n']:.0f}", look.strong)
        return text
    style, glyph = _level(item)
    when = f"{clock(item.time, '%H:%M:%S')} " if item.time else ""
    if item.kind == "finding":
        words = f"since step {fields['since']}: {fields['text']}"
    else:
        words = facts(fields)
    text.append(one_line(f"{when}{glyph}{item.kind}: {words}", 400), style)
    return text


def _level(item: News) -> tuple[Style, str]:
    look = palette("lego-dark")
    if item.kind == "finding":
        name = str(item.fields["level"])
        return look.level(name), GLYPHS[name] + " "
    if item.kind == "end" and item.fields.get("status") == "failed":
        return look.bad, GLYPHS["bad"] + " "
    return look.text, ""


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
