"""One rollout from its frame, read leniently: what is there, in plain values.

Owns the unpacking of frames and arrays. Invariants: sizes are bounded by what the frame claims and by what is
sensible; nothing raises, a broken or newer frame gives a `Rollout` that says so. Arrays are unpacked
when they are asked for. The store's reader is the strict one; this one is for display.
"""

from __future__ import annotations

import base64
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import zstandard
from numpy.typing import NDArray

from lego_core.store.reader import MAX_TRAJECTORY_BYTES
from lego_tui.actions import Action, actions
from lego_tui.feed.index import Entry
from lego_tui.feed.lone import decode


class PackedTurn(msgspec.Struct, dict=True):
    """One engine call."""

    index: int = 0
    context_ids: msgspec.Raw = msgspec.Raw(b"null")
    sampled_ids: msgspec.Raw = msgspec.Raw(b"null")
    logprobs: msgspec.Raw = msgspec.Raw(b"null")
    routes: msgspec.Raw = msgspec.Raw(b"null")
    routes_from: int = 0
    policy_version: int = -1
    finish_reason: str = ""
    started_s: float | str | None = None
    ended_s: float | str | None = None
    thread: str = ""
    side_call: str = ""
    masked: str = ""

    @cached_property
    def ids(self) -> NDArray[Any]:
        """`[m]` sampled ids."""
        return unpack(self.sampled_ids)

    @property
    def num_context(self) -> int:
        return length(self.context_ids)

    @property
    def num_sampled(self) -> int:
        return length(self.sampled_ids)


class PackedBranch(msgspec.Struct, dict=True):
    """One root-to-leaf token path."""

    ids: msgspec.Raw = msgspec.Raw(b"null")
    mask: msgspec.Raw = msgspec.Raw(b"null")
    logprobs: msgspec.Raw = msgspec.Raw(b"null")
    versions: msgspec.Raw = msgspec.Raw(b"null")
    routes: msgspec.Raw = msgspec.Raw(b"null")
    thread: str = ""
    parent: str = ""
    cause: str = ""
    at: int = 0

    @cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """ids, mask, logprobs, versions, routes; empty where absent."""
        names = ("ids", "mask", "logprobs", "versions", "routes")
        return {name: unpack(cast(msgspec.Raw, getattr(self, name))) for name in names}


class _Grade(msgspec.Struct):
    reward: float | str | None = None
    tests: dict[str, Any] = {}
    duration_s: float | str | None = None
    detail: str = ""


class _Frame(msgspec.Struct):
    id: str = ""
    task_id: str = ""
    epoch: int = 0
    harness: str = ""
    sandbox: str = ""
    stop_reason: str = ""
    error: str = ""
    grade: _Grade | None = None
    turns: list[PackedTurn] = []
    branches: list[PackedBranch] = []
    messages: list[Any] = []
    patch: str = ""
    timings_s: dict[str, Any] = {}
    integrity: Any = None
    """Findings, where the release that wrote it records them."""


class Rollout:
    """A trajectory as a person looks at it."""

    def __init__(self, entry: Entry, frame: _Frame, complaint: str = "") -> None:
        self.entry, self.complaint = entry, complaint
        self.id, self.task = entry.id, frame.task_id or entry.task
        self.stop_reason = frame.stop_reason or entry.stop_reason
        self.error, self.epoch = frame.error, frame.epoch
        self.harness, self.sandbox = frame.harness, frame.sandbox
        self.turns, self.branches = frame.turns, frame.branches
        self.messages = [cast(dict[str, Any], m) for m in frame.messages if isinstance(m, dict)]
        self.patch, self.recorded_findings = frame.patch, frame.integrity
        self.timings = {k: float(v) for k, v in frame.timings_s.items() if isinstance(v, int | float)}
        self.tests = {str(k): str(v) for k, v in frame.grade.tests.items()} if frame.grade else {}
        self.grade_detail = frame.grade.detail if frame.grade else ""
        self.is_graded = frame.grade is not None

    @cached_property
    def actions(self) -> list[Action]:
        """One for each message of the assistant."""
        return actions(self.messages, self.harness)

    @property
    def num_sampled(self) -> int:
        return sum(turn.num_sampled for turn in self.turns)


def load_rollout(path: Path, entry: Entry) -> Rollout:
    """Open a rollout; whatever is wrong is its complaint."""
    try:
        with path.open("rb") as file:
            file.seek(entry.offset)
            packed = file.read(entry.length)
        size = zstandard.frame_content_size(packed)
        if not 0 <= size <= MAX_TRAJECTORY_BYTES:
            raise ValueError(f"claims to unpack to {size} bytes")
        data = zstandard.ZstdDecompressor().decompress(packed)
        return Rollout(entry, decode(data, _Frame))
    except (OSError, ValueError, zstandard.ZstdError, MemoryError, RecursionError) as error:
        return Rollout(entry, _Frame(), f"{path.name} at {entry.offset}: {error}")


def length(raw: msgspec.Raw) -> int:
    """Elements along the first axis, without unpacking the data."""
    head = bytes(memoryview(raw)[:96])
    begin = head.find(b'"shape":[')
    digits = head[begin + 9 :].split(b",")[0].split(b"]")[0] if begin >= 0 else b""
    return int(digits) if digits.isdigit() else len(unpack(raw))


def unpack(raw: msgspec.Raw) -> NDArray[Any]:
    """An array as the store packs it; empty where it is none."""
    try:
        value = msgspec.json.decode(raw)
        data = base64.b64decode(value["data"])
        array = np.frombuffer(data, dtype=np.dtype(value["dtype"])).reshape(value["shape"])
    except (ValueError, TypeError, KeyError):
        return np.zeros(0)
    return array if array.ndim and array.dtype.kind in "biuf" else np.zeros(0)
