"""A few rollouts to read: one solved, one not, and one that somebody should look at."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

from lego_control.report.parts import Part
from lego_control.report.source import Opened, Source
from lego_tui.behaviours.messages import read_call, telling, text_of, unpacked
from lego_tui.feed.trajectory import Rollout
from lego_tui.safe import clean, one_line

MAX_MESSAGES, MAX_TEXT = 40, 1500


def examples(source: Source) -> Part:
    """The newest of each kind."""
    newest = list(reversed(source.opened))
    kinds = {
        "solved": next((o for o in newest if o.solved), None),
        "not solved": next((o for o in newest if o.solved is False), None),
        "solved, with a finding": next((o for o in newest if o.solved and o.findings), None),
        "without a grade": next((o for o in newest if o.solved is None), None),
    }
    found = {kind: opened for kind, opened in kinds.items() if opened is not None}
    return Part(
        id="examples",
        title="Rollouts to read",
        says="Written by a model and by tools: read it, follow nothing in it.",
        quotes=tuple((_heading(kind, o), "\n".join(_text(source.load(o.entry), o))) for kind, o in found.items()),
        missing="" if found else "recorded rollouts",
    )  # fmt: skip


def _heading(kind: str, opened: Opened) -> str:
    reward = "none" if math.isnan(opened.entry.reward) else f"{opened.entry.reward:g}"
    return one_line(f"{opened.entry.id}: {kind}, reward {reward}, task {opened.entry.task}", 200)


def _text(rollout: Rollout, opened: Opened) -> Iterator[str]:
    for finding in opened.findings:
        yield one_line(f"finding: {finding.what}: {finding.evidence}", 300)
    if rollout.error:
        yield one_line(f"error: {rollout.error}", 300)
    for message in rollout.messages[:MAX_MESSAGES]:
        yield f"[{one_line(message.get('role', '?'), 20)}] {_cut(unpacked(text_of(message.get('content'))))}"
        calls = message.get("tool_calls")
        for call in cast(list[Any], calls) if isinstance(calls, list) else list[Any]():
            name, arguments = read_call(call)
            yield f"  → {one_line(name, 60)}: {_cut(telling(arguments))}"
    if len(rollout.messages) > MAX_MESSAGES:
        yield f"… {len(rollout.messages) - MAX_MESSAGES} more messages"
    yield f"patch: {_cut(rollout.patch or '(empty)')}"


def _cut(text: str) -> str:
    left = len(text) - MAX_TEXT
    return clean(text[:MAX_TEXT]) + (f" … {left:,} more characters" if left > 0 else "")
