"""Recorded requests of real harnesses, cut so that thousands can be sent."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from lego_harness.wire.recording import read_recording

WIRE = Path(__file__).parents[2] / "data" / "wire"
PATHS = {"messages": "/v1/messages", "responses": "/v1/responses", "chat": "/v1/chat/completions"}
MAX_TEXT, MAX_TOOLS, MAX_ITEMS = 300, 3, 12


@cache
def corpus() -> list[tuple[str, dict[str, Any]]]:
    """Dialect and body of each."""
    found: list[tuple[str, dict[str, Any]]] = []
    for path in sorted(WIRE.rglob("*.jsonl.gz")):
        for call in read_recording(path):
            name = next(
                (name for name, tail in PATHS.items() if call.path.split("?")[0].endswith(tail)), None
            )
            if name and call.fields:
                found.append((name, _small(dict(call.fields))))
    return found


def _small(body: dict[str, Any]) -> dict[str, Any]:
    for name in ("messages", "input"):
        if isinstance(body.get(name), list):
            body[name] = body[name][:MAX_ITEMS]
    if isinstance(body.get("tools"), list):
        body["tools"] = body["tools"][:MAX_TOOLS]
    return _cut(body)


def _cut(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item) for item in value]
    return value[:MAX_TEXT] if isinstance(value, str) else value
