"""The conversation that a chat template is studied with, in words that no template writes by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lego_harness.proxy.conversation import FunctionCall
from lego_harness.proxy.template import ChatTemplate

Message = Mapping[str, Any]

RULE, DESCRIPTION, QUESTION, ANSWER, THOUGHT = (
    "a-rule",
    "what-it-does",
    "a-question",
    "an-answer",
    "a-thought",
)
CALL: FunctionCall = {"name": "a_tool", "arguments": {"a_key": 'two\n"lines" é'}}
SYSTEM: Message = {"role": "system", "content": RULE}
ASK: Message = {"role": "user", "content": QUESTION}
TOOL: Message = {
    "type": "function",
    "function": {
        "name": CALL["name"],
        "description": DESCRIPTION,
        "parameters": {"type": "object", "properties": {"a_key": {"type": "string"}}},
    },
}


def answer(**fields: object) -> dict[str, Any]:
    """An assistant turn without a call."""
    return {"role": "assistant", "content": ANSWER, **fields}


def call_turn(call_id: str, *, arguments: object = CALL["arguments"], **fields: object) -> dict[str, Any]:
    """An assistant turn that says something and calls `TOOL`."""
    function = {"name": CALL["name"], "arguments": arguments}
    return answer(tool_calls=[{"type": "function", "id": call_id, "function": function}], **fields)


def result(call_id: str) -> Message:
    """What the tool gave back."""
    return {"role": "tool", "tool_call_id": call_id, "content": f"result-{call_id}"}


def shown(template: ChatTemplate, *messages: Message, has_tools: bool = False, is_asked: bool = False) -> str:
    """The text of a conversation, with `TOOL` on offer or with the generation prompt."""
    return template.render(messages, [TOOL] if has_tools else [], add_generation_prompt=is_asked)
