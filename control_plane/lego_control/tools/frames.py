"""Trajectories from their frames, of bounded size, and their messages as text."""

from __future__ import annotations

import json
from typing import Any, cast

import zstandard

from lego_control.failures import Refusal
from lego_control.run import Run
from lego_core.store import IndexEntry
from lego_harness.errors import InfrastructureError
from lego_harness.types import StopReason, Trajectory

MAX_BYTES = 256 * 2**20
"""Unpacked size; larger trajectories are for `lego export`."""
_HEADER_BYTES = 32


def load(run: Run, handle: str) -> Trajectory:
    """A trajectory by its handle. Raises Refusal: unknown, too large, or broken."""
    entry = _entry(run, handle)
    if entry is None:
        raise Refusal(
            "unknown_handle",
            f"{run.name} holds no trajectory of that handle",
            "take one from trajectories_search",
        )
    size = _unpacked_size(run, entry)
    if size > MAX_BYTES:
        raise Refusal(
            "too_large",
            f"that trajectory unpacks to {size} bytes, more than {MAX_BYTES}",
            f"export it by hand: lego export {run.name} --format jsonl --id {entry.id}",
        )
    try:
        return run.reader.load(entry)
    except InfrastructureError as error:
        raise Refusal(
            "unreadable_trajectory", f"the frame of {entry.id} is broken", "read another one"
        ) from error


def message_text(message: dict[str, Any]) -> str:
    """Everything in a message: its text, its thinking, its tool calls, its results."""
    parts = [_text(message.get(key)) for key in ("reasoning_content", "content")]
    calls: Any = message.get("tool_calls")
    for call in cast(list[Any], calls) if isinstance(calls, list) else []:
        function: Any = cast(dict[str, Any], call).get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            told = cast(dict[str, Any], function)
            parts.append(f"[call {told.get('name')} {_text(told.get('arguments'))}]")
    return "\n".join(part for part in parts if part)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(_text(part) for part in cast(list[Any], value))
    if isinstance(value, dict) and isinstance(text := cast(dict[str, Any], value).get("text"), str):
        return text
    return json.dumps(value, ensure_ascii=False)


def _entry(run: Run, handle: str) -> IndexEntry | None:
    run.index.refresh("trajectories")
    step = int(handle[1:6]) if handle[:1] == "s" and handle[1:6].isascii() and handle[1:6].isdigit() else None
    where, values = ("step = ?", [step]) if step is not None else ("step IS NULL", [])
    found = run.index.rows(
        f"SELECT id, file, offset, length, step, task, stop_reason, reward, sampled FROM trajectory WHERE {where} AND id = ?",
        [*values, handle],
    )
    if not found:
        return None
    names = ("id", "file", "offset", "length", "step", "task", "stop_reason", "reward", "sampled")
    told: dict[str, Any] = dict(zip(names, found[0], strict=True))
    try:
        told["stop_reason"] = StopReason(told["stop_reason"])
        return IndexEntry(**told)
    except ValueError as error:
        raise Refusal(
            "other_version", "the run was written by another version", "read it with that version"
        ) from error


def _unpacked_size(run: Run, entry: IndexEntry) -> int:
    path = run.layout.trajectories / entry.file.rpartition("/")[2]
    try:
        with path.open("rb") as file:
            file.seek(entry.offset)
            return zstandard.frame_content_size(file.read(_HEADER_BYTES))
    except (OSError, ValueError, zstandard.ZstdError) as error:
        raise Refusal(
            "unreadable_trajectory", f"the frame of {entry.id} is broken", "read another one"
        ) from error
