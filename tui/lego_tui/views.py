"""A rollout as lines: its conversation, its patch, its verdict. Pure functions; its tokens are in `token_rows.py`.

Each view is a list of `Row`s laid out for a width; a row knows the turn it belongs to, so that keys can
jump by turn. Long texts are bounded, and a count says how much is left out.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from rich.style import Style

from lego_tui.audit import audit
from lego_tui.behaviours.messages import read_call, telling, unpacked
from lego_tui.feed.trajectory import Rollout
from lego_tui.palette import GLYPHS, Palette
from lego_tui.safe import clean, one_line, tail, wrap

MAX_TEXT = 400_000
"""Characters of one message that are laid out."""
MAX_ROWS = 4_000
"""Lines of one message that are laid out."""
_BAR = "▎ "


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a view."""

    text: str
    style: Style
    turn: int = -1
    """Number of the assistant's message it belongs to; −1 before the first."""


def conversation(rollout: Rollout, palette: Palette, width: int, *, thinking: bool = True) -> list[Row]:
    """Messages in order with numbered turns, tool calls and their results."""
    rows: list[Row] = []
    done, turn, branch = rollout.actions, -1, 0
    for message in rollout.messages:
        number = message.get("branch", 0)
        if number != branch and isinstance(number, int):
            branch = number
            rows += _branch_rows(rollout, number, palette, turn)
        role = str(message.get("role", "?"))
        if role == "assistant":
            turn += 1
            rows += _assistant(message, turn, done[turn].kind, palette, width, thinking=thinking)
        else:
            rows += _other(role, message, turn, palette, width)
    return rows


def _branch_rows(rollout: Rollout, number: int, palette: Palette, turn: int) -> list[Row]:
    known = rollout.branches[number] if 0 <= number < len(rollout.branches) else None
    cause = one_line(known.cause, 60) if known else "unknown cause"
    where = f", departs at message {known.at}" if known else ""
    return [Row(f"── branch {number}: {cause}{where} ──", palette.watch, turn)]


def _assistant(
    message: dict[str, Any], turn: int, kind: str, palette: Palette, width: int, *, thinking: bool
) -> Iterator[Row]:
    yield Row(f"▸ turn {turn + 1}  {kind}", palette.kinds[kind], turn)
    reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
    if reasoning:
        if thinking:
            yield from _body(reasoning, palette.dim + Style(italic=True), turn, width)
        else:
            yield Row(f"{_BAR}(thinking, {len(str(reasoning)):,} characters: r shows it)", palette.dim, turn)
    if message.get("content"):
        yield from _body(_plain(message["content"]), palette.text, turn, width)
    calls = message.get("tool_calls")
    for call in cast(list[Any], calls) if isinstance(calls, list) else list[Any]():
        name, arguments = read_call(call)
        yield from _body(f"{name}: {telling(arguments)}", palette.accent, turn, width)


def _other(role: str, message: dict[str, Any], turn: int, palette: Palette, width: int) -> Iterator[Row]:
    sign = "◂" if role == "tool" else "●"
    yield Row(f"{sign} {one_line(role, 20)}", palette.dim, turn)
    yield from _body(
        unpacked(_plain(message.get("content"))),
        palette.text if role != "system" else palette.dim,
        turn,
        width,
    )


def _body(text: object, style: Style, turn: int, width: int) -> Iterator[Row]:
    whole = str(text)
    for n, line in enumerate(wrap(whole[:MAX_TEXT], width - 3)):
        if n >= MAX_ROWS:
            yield Row(f"{_BAR}… more lines of this message are not shown", style, turn)
            break
        yield Row(f"{_BAR}{line}", style, turn)
    if len(whole) > MAX_TEXT:
        yield Row(f"{_BAR}… {len(whole) - MAX_TEXT:,} more characters of this message", style, turn)


def _plain(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(map(_part, cast(list[Any], content)))
    return "" if content is None else json.dumps(content, ensure_ascii=False, default=str)


def _part(part: Any) -> str:
    return str(cast(dict[str, Any], part).get("text", cast(object, part)) if isinstance(part, dict) else part)


# --- patch -----------------------------------------------------------------------------------


def patch(rollout: Rollout, best: Rollout | None, palette: Palette, width: int) -> list[Row]:
    """The exported change; compared with the best sibling's if there is one."""
    rows = [Row(f"the agent's patch ({rollout.id})", palette.strong)]
    rows += _diff(rollout.patch.splitlines() or ["(empty)"], palette, width)
    if best is None or best.id == rollout.id:
        return [
            *rows,
            Row("", palette.dim),
            Row("no other sibling earned more: nothing to compare with", palette.dim),
        ]
    rows += [
        Row("", palette.dim),
        Row(f"from it to the best sibling's ({best.id}, reward {best.entry.reward:.2f})", palette.strong),
    ]
    changes = difflib.unified_diff(
        rollout.patch.splitlines()[:2000], best.patch.splitlines()[:2000], rollout.id, best.id, lineterm=""
    )
    return rows + (_diff(list(changes), palette, width) or [Row("the same patch", palette.dim)])


def _diff(lines: Sequence[str], palette: Palette, width: int) -> list[Row]:
    styles = {"+": palette.ok, "-": palette.bad, "@": palette.accent}
    return [
        Row(_BAR + piece, styles.get(line[:1], palette.text))
        for line in lines[:MAX_ROWS]
        for piece in wrap(line, width - 3)
    ]


# --- verdict ---------------------------------------------------------------------------------


def verdict(rollout: Rollout, palette: Palette, width: int) -> list[Row]:
    """Reward, tests, findings, branches, timings: why it got what it got."""
    rows = list(
        _wrapped(f"{_reward(rollout)}  {rollout.stop_reason.replace('_', ' ')}", palette.strong, width)
    )
    for text, style in ((rollout.complaint, palette.bad), (rollout.error, palette.bad)):
        if text:
            rows += _wrapped(text, style, width)
    rows += _findings(rollout, palette, width)
    rows += _tests(rollout, palette, width)
    rows += _branches(rollout, palette, width)
    rows += _timings(rollout, palette)
    where = (
        f"{rollout.harness or '?'} in {rollout.sandbox or '?'}, epoch {rollout.epoch}, task {rollout.task}"
    )
    return [*rows, Row("", palette.dim), *_wrapped(where, palette.dim, width)]


def _reward(rollout: Rollout) -> str:
    reward = rollout.entry.reward
    return f"reward {reward:g}" if np.isfinite(reward) else "no reward"


def _findings(rollout: Rollout, palette: Palette, width: int) -> Iterator[Row]:
    found = audit(rollout, rollout.actions)
    yield Row("", palette.dim)
    yield Row("integrity", palette.strong)
    if not found:
        yield Row(f"{GLYPHS['ok']} no finding", palette.ok)
    for finding in found:
        where = f" (turn {finding.turn + 1})" if finding.turn is not None else ""
        source = "recorded" if finding.is_recorded else "read off"
        yield from _wrapped(
            f"{GLYPHS['watch']} {finding.what}{where}, {source}: {finding.evidence}", palette.bad, width
        )


def _tests(rollout: Rollout, palette: Palette, width: int) -> Iterator[Row]:
    yield Row("", palette.dim)
    passed = sum(v == "passed" for v in rollout.tests.values())
    yield Row(
        f"tests {passed}/{len(rollout.tests)}" if rollout.tests else "tests: none (no grade)", palette.strong
    )
    for name, result in list(rollout.tests.items())[:200]:
        ok = result == "passed"
        yield Row(
            f"{GLYPHS['ok' if ok else 'bad']} {one_line(result, 10):8} {tail(name, width - 12)}",
            palette.ok if ok else palette.bad,
        )
    if rollout.grade_detail:
        yield from _wrapped(rollout.grade_detail, palette.dim, width)


def _branches(rollout: Rollout, palette: Palette, width: int) -> Iterator[Row]:
    yield Row("", palette.dim)
    yield Row(
        f"branches {len(rollout.branches)}, turns {len(rollout.turns)}, sampled {rollout.num_sampled:,} tokens",
        palette.strong,
    )
    for number, branch in enumerate(rollout.branches[:50]):
        cause = branch.cause or "start"
        at = f" at message {branch.at}" if branch.at else ""
        thread = f", {branch.thread}" if branch.thread else ""
        yield from _wrapped(
            f"{number}: {cause}{at}{thread}", palette.text if cause == "start" else palette.watch, width
        )


def _timings(rollout: Rollout, palette: Palette) -> Iterator[Row]:
    yield Row("", palette.dim)
    yield Row("stages", palette.strong)
    if not rollout.timings:
        yield Row("none recorded", palette.dim)
    top = max(rollout.timings.values(), default=0.0) or 1.0
    for stage, seconds in rollout.timings.items():
        bar = "█" * max(round(12 * seconds / top), 0) if np.isfinite(seconds) else ""
        yield Row(f"{one_line(stage, 16):17}{seconds:8.1f} s {bar}", palette.text)


def _wrapped(text: str, style: Style, width: int) -> Iterator[Row]:
    for line in wrap(clean(text)[:4000], max(width - 1, 8)):
        yield Row(line, style)
