"""The token record of one conversation, append-only.

Owns ids, mask, log-probabilities and versions of one root-to-leaf path, in step, and where its routing
rows lie.
Invariant: nothing written is ever changed (law 1), and the ids before a sampled span are exactly
the context it was sampled from (law 3). Views handed out are read-only and share memory, so a turn
costs its new tokens only. Knows no messages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lego_harness.proxy.route_log import RouteBlock
from lego_harness.types import Generation, TokenIds, token_versions


class _Column:
    """A growing array. A view stays valid: growth copies, and rows are written once."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self._rows: NDArray[Any] = np.empty(1024, dtype)
        self.length = 0

    def append(self, rows: NDArray[Any]) -> None:
        end = self.length + len(rows)
        if end > len(self._rows):
            grown = np.empty(max(end, 2 * len(self._rows)), self._rows.dtype)
            grown[: self.length] = self._rows[: self.length]
            self._rows = grown
        self._rows[self.length : end] = rows
        self.length = end

    def view(self, start: int, end: int) -> NDArray[Any]:
        rows = self._rows[start:end]
        rows.flags.writeable = False
        return rows


class TokenPath:
    """Tokens from the first context to the last sampled token, `T` of them."""

    def __init__(self) -> None:
        self._ids = _Column(np.int32)
        self._mask = _Column(np.bool_)
        self._logprobs = _Column(np.float32)
        self._versions = _Column(np.int32)
        self._columns = (self._ids, self._mask, self._logprobs, self._versions)
        self.routes: list[RouteBlock] = []
        """Of the first `num_routed` positions, in order."""
        self.num_routed = 0
        """Positions whose routing row is known; the next call asks for rows from here."""

    def __len__(self) -> int:
        return self._ids.length

    def ids(self, start: int = 0, end: int | None = None) -> TokenIds:
        """Read-only view of a span."""
        return self._ids.view(start, len(self) if end is None else end)

    def logprobs(self, start: int) -> NDArray[np.float32]:
        """Read-only view from `start` to the end."""
        return self._logprobs.view(start, len(self))

    def append_context(self, ids: TokenIds) -> None:
        """Tokens nobody sampled."""
        self._append(
            ids, np.zeros(len(ids), np.float32), sampled=False, versions=np.full(len(ids), -1, np.int32)
        )

    def append_sampled(self, generation: Generation, routes: RouteBlock | None) -> None:
        """What the engine sampled behind everything so far, and the routing rows it came with."""
        versions = token_versions(generation.versions, generation.policy_version, len(generation.ids))
        self._append(generation.ids, generation.logprobs, sampled=True, versions=versions)
        if routes is not None:
            self.routes.append(routes)
            self.num_routed += len(routes)

    def fork(self, length: int, num_routed: int) -> TokenPath:
        """A path of its own behind the first `length` tokens of this one, which are context there:
        this one goes on owning what was sampled among them."""
        path = TokenPath()
        path.append_context(self.ids(0, length))
        path.routes = self._routes_before(num_routed)
        path.num_routed = num_routed
        return path

    def columns(self) -> tuple[NDArray[Any], ...]:
        """Read-only ids, mask, log-probabilities and versions, `[T]` each."""
        return tuple(column.view(0, len(self)) for column in self._columns)

    def _routes_before(self, num_routed: int) -> list[RouteBlock]:
        kept: list[RouteBlock] = []
        for block in self.routes:
            if num_routed <= 0:
                break
            kept.append(block.first(num_routed))
            num_routed -= len(block)
        return kept

    def _append(
        self, ids: TokenIds, logprobs: NDArray[np.float32], *, sampled: bool, versions: NDArray[np.int32]
    ) -> None:
        self._ids.append(ids)
        self._logprobs.append(logprobs)
        self._mask.append(np.full(len(ids), sampled))
        self._versions.append(versions)
