"""Requests in every dialect that often begin as another one did, for laws over all of them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from lego_harness.proxy.dialects.base import Dialect

TWINS = [{"x": 1}, {"x": 1.0}, {"x": True}, {"x": "😀", "y": -0.0}, {"y": 0.0, "x": "😀"}]
"""Equal in Python, or the same in another order; not the same to a model."""


def chat_call(number: int, arguments: Any) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": arguments}}


POOLS: dict[str, list[Any]] = {
    "chat": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "u"},
        {"role": "user", "content": [{"type": "text", "text": "u"}], "ignored": 1},
        {"role": "assistant", "content": "a", "reasoning": "r"},
        *({"role": "assistant", "tool_calls": [chat_call(0, twin), chat_call(1, {})]} for twin in TWINS),
        {"role": "assistant", "tool_calls": [chat_call(0, '{"x": 1.0}'), chat_call(1, "{")]},
        {"role": "tool", "tool_call_id": "c0", "content": "0"},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
    ],
    "messages": [
        {"role": "user", "content": "u"},
        {"role": "user", "content": [{"type": "text", "text": "u", "cache_control": {}}]},
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": "a"},
        *(
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "t", "signature": ""},
                    {"type": "tool_use", "id": "c0", "name": "f", "input": twin},
                    {"type": "tool_use", "id": "c1", "name": "f", "input": {}},
                ],
            }
            for twin in TWINS
        ),
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "1"},
                {"type": "tool_result", "tool_use_id": "c0", "content": [{"type": "text", "text": "0"}]},
                {"type": "text", "text": "and"},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c0", "content": "0"}]},
    ],
    "responses": [
        {"role": "user", "content": "u"},
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": None},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
        *(
            {"type": "function_call", "call_id": f"c{i}", "name": "f", "arguments": json.dumps(twin)}
            for i, twin in enumerate(TWINS)
        ),
        {"type": "custom_tool_call", "call_id": "c9", "name": "p", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c9", "output": "9"},
        {"type": "function_call_output", "call_id": "c0", "output": "0"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "1"}]},
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "more"}]},
    ],
}
SCHEMAS = [{"type": "object", "properties": {"x": {"default": twin["x"]}}} for twin in TWINS[:3]]
TOOLS: dict[str, list[Any]] = {
    "chat": [{"type": "function", "function": {"name": "f", "parameters": schema}} for schema in SCHEMAS],
    "messages": [{"name": "f", "input_schema": schema} for schema in SCHEMAS],
    "responses": [{"type": "function", "name": "f", "parameters": schema} for schema in SCHEMAS],
}


def bodies(dialect: Dialect) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Requests that often begin as another one did."""
    item = st.sampled_from(POOLS[dialect.name])
    ahead = st.fixed_dictionaries(
        {}, optional={"model": st.sampled_from(["m", "n"]), "temperature": st.just(1)}
    )
    behind = st.fixed_dictionaries(
        {},
        optional={
            "tools": st.lists(st.sampled_from(TOOLS[dialect.name]), max_size=1),
            "system": st.sampled_from(["S", [{"type": "text", "text": "S"}]]),
            "instructions": st.sampled_from(["S", "T"]),
            "stream": st.booleans(),
        },
    )
    start = st.lists(item, min_size=1, max_size=4)

    @st.composite
    def several(draw: st.DrawFn) -> list[dict[str, Any]]:
        shared = draw(start)
        made: list[dict[str, Any]] = []
        for _ in range(draw(st.integers(2, 4))):
            kept = shared[: draw(st.integers(0, len(shared)))]
            items = [*kept, *draw(st.lists(item, max_size=4))] or shared
            made.append({**draw(ahead), dialect.grows: items, **draw(behind)})
            shared = items
        return made

    return several()
