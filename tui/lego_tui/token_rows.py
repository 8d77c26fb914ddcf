"""The tokens of a rollout, one per line; only the lines on the screen are made.

A rollout of 150,000 tokens is laid out in milliseconds: a branch knows the position at which each of its lines begins,
and makes a line when it is asked for. What the harness added between turns is one line.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np

from lego_tui.feed.trajectory import PackedBranch, Rollout
from lego_tui.palette import Palette
from lego_tui.safe import fit, one_line, wrap
from lego_tui.views import Row

Decode = Callable[[int], str] | None


class TokenRows(Sequence[Row]):
    """Every branch, token by token. `gap` says what is known of the trainer's log-probabilities."""

    def __init__(self, rollout: Rollout, palette: Palette, decode: Decode, gap: str, width: int) -> None:
        self._head = [
            *(Row(line, palette.dim) for line in wrap(f"the trainer's side: {gap}", width - 1)),
            Row("" if decode else "no tokenizer.json at the recipe's model.path: ids only", palette.dim),
        ]
        if not rollout.branches:
            self._head.append(Row("no branch: nothing was sampled", palette.dim))
        self._parts = [_BranchRows(n, branch, palette, decode) for n, branch in enumerate(rollout.branches)]
        lengths = (len(self._head), *(len(part) for part in self._parts))
        self._begins = list(itertools.accumulate(lengths))
        """Line that each branch begins at; then the number of lines."""
        self.turns: list[int] = [-1] * len(self._head)
        """Turn of each line."""
        for part in self._parts:
            self.turns += part.turns

    def __len__(self) -> int:
        return self._begins[-1]

    @overload
    def __getitem__(self, number: int) -> Row: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Row]: ...
    def __getitem__(self, number: int | slice) -> Row | Sequence[Row]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(number)
        part = bisect_right(self._begins, number) - 1
        return self._head[number] if part < 0 else self._parts[part].row(number - self._begins[part])


class _BranchRows:
    """Two lines of heading, then the tokens of one branch."""

    def __init__(self, number: int, branch: PackedBranch, palette: Palette, decode: Decode) -> None:
        arrays = branch.arrays
        self._ids, self._versions = _ints(arrays["ids"]), _ints(arrays["versions"])
        self._logprobs, mask, count = arrays["logprobs"].ravel(), arrays["mask"].ravel(), len(self._ids)
        self._palette, self._decode = palette, decode
        self._sampled = np.zeros(count, bool)
        self._sampled[: len(mask)] = mask[:count]
        self._covered = _covered(arrays["routes"], count)
        is_context = ~self._sampled
        begins_context = is_context & ~np.concatenate([[False], is_context[:-1]])
        self._at = np.flatnonzero(self._sampled | begins_context)
        turns = np.cumsum(begins_context) - 1 - begins_context
        self.turns: list[int] = [-1, -1, *turns[self._at].tolist()]
        self._head = self._heading(number, branch)

    def __len__(self) -> int:
        return len(self.turns)

    def row(self, number: int) -> Row:
        if number < 2:
            return self._head[number]
        at = int(self._at[number - 2])
        return (self._token if self._sampled[at] else self._context)(at, number)

    def _heading(self, number: int, branch: PackedBranch) -> list[Row]:
        covered, count = self._covered, len(self._ids)
        share = f"{100 * covered[:-1].mean():.1f} % of positions have routes" if count > 1 else "no routes"
        trained = int(self._sampled.sum())
        told = f"branch {number}: {one_line(branch.cause or 'start', 40)}, {count:,} tokens, {trained:,} trained, {share}"
        titles = "    position        id  mask  ver    logp  route  text"
        return [Row(f"── {told} ──", self._palette.watch), Row(titles, self._palette.dim)]

    def _context(self, at: int, number: int) -> Row:
        end = int(self._at[number - 1]) if number - 1 < len(self._at) else len(self._ids)
        shown = self._ids[at : min(end, at + 200)] if self._decode else ()
        text = "".join(self._decode(int(i)) for i in shown) if self._decode else ""
        told = f"{at:>8}…{end - 1:<8} context {end - at:,} tokens  {fit(one_line(text, 400), 200).rstrip()}"
        return Row(told, self._palette.dim, self.turns[number])

    def _token(self, at: int, number: int) -> Row:
        palette, token = self._palette, int(self._ids[at])
        logp = float(self._logprobs[at]) if at < len(self._logprobs) else float("nan")
        version = int(self._versions[at]) if at < len(self._versions) else -1
        style = palette.bad if logp < -6 else palette.watch if logp < -3 else palette.text
        route = "yes" if self._covered[at] else "–"
        text = one_line(self._decode(token).replace("\n", "⏎"), 60) if self._decode else ""
        told = f"{at:>12} {token:>9}     1 {version:>4} {logp:>7.2f}  {route:>5}  {text}"
        return Row(told, style, self.turns[number])


def _covered(routes: Any, count: int) -> Any:
    if routes.ndim != 3 or len(routes) != count:
        return np.zeros(count, bool)
    return (routes >= 0).all(axis=(1, 2))


def _ints(values: Any) -> Any:
    """`[n]` whatever numbers a file holds."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(values.ravel()).astype(np.int64)
