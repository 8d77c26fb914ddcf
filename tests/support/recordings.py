"""Recordings written by hand: a harness reduced to what it sends and keeps, and a server to what it replies."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages?beta=true", "responses": "/v1/responses"}
TASK = "Repair add() in calc.py, then run the tests."
JSON = dict[str, Any]


Outcomes = Callable[["Tape | Path"], Awaitable[list[JSON]]]
"""Replays a recording; the outcome of each session."""
Outcome = Callable[["Tape | Path"], Awaitable[JSON]]
"""The same for a recording of one session."""


class Tape:
    """The lines of a recording."""

    def __init__(self) -> None:
        self.lines: list[JSON] = []
        self._ids = itertools.count(1)

    def add(self, path: str, body: Any, reply: JSON | None, *, method: str = "POST", **headers: str) -> None:
        """One request; underscores in header names stand for dashes."""
        pairs = [[name.replace("_", "-"), value] for name, value in headers.items()]
        line = {"n": len(self.lines) + 1, "t": float(len(self.lines)), "method": method, "path": path}
        self.lines.append({**line, "headers": pairs, "body": copy.deepcopy(body), "reply": reply})

    def new_id(self, prefix: str) -> str:
        return f"{prefix}_{next(self._ids):016d}"

    def write(self, folder: Path) -> Path:
        """As a file."""
        path = folder / "recording.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")
        return path


def tool(name: str, *parameters: str) -> JSON:
    """A tool in OpenAI's nested form."""
    schema = {"type": "object", "properties": {key: {"type": "string"} for key in parameters}}
    return {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": schema}}


TOOLS = [tool("bash", "command"), tool("task", "prompt")]


class Chat:
    """A harness that speaks Chat Completions, one conversation of it."""

    dialect = "chat"

    def __init__(
        self, tape: Tape, *, system: str = "You are an agent.", task: str = TASK, **headers: str
    ) -> None:
        self.tape, self.headers = tape, headers
        self.messages: list[JSON] = [{"role": "system", "content": system}, {"role": "user", "content": task}]
        self.tools: list[JSON] = copy.deepcopy(TOOLS)

    def body(self) -> JSON:
        tools = {"tools": self.tools} if self.tools else {}
        return {"model": "m", "messages": self.messages, **tools}

    def post(self, reply: JSON | None) -> None:
        """Send the history as it is."""
        self.tape.add(PATHS[self.dialect], self.body(), reply, **self.headers)

    def turn(self, text: str | None = None, *commands: str, **fields: Any) -> JSON:
        """Send the history and keep the reply, whose calls run commands."""
        message = self.message(text, *commands)
        self.post(self.reply(message, **fields))
        self.messages.append(message)
        return message

    def tool_turn(self, command: str = "ls", text: str | None = None) -> None:
        """A turn that runs one command."""
        self.turn(text, command)
        self.results("ok")

    def message(self, text: str | None, *commands: str) -> JSON:
        calls = [
            {
                "id": self.tape.new_id("call"),
                "type": "function",
                "function": {"name": "bash", "arguments": json.dumps({"command": command})},
            }
            for command in commands
        ]
        return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}

    def reply(self, message: JSON, *, finish: str | None = None, status: int = 200) -> JSON:
        reason = finish or ("tool_calls" if message.get("tool_calls") else "stop")
        choice = {"index": 0, "message": copy.deepcopy(message), "finish_reason": reason}
        whole = {"id": self.tape.new_id("chatcmpl"), "object": "chat.completion", "choices": [choice]}
        return {"status": status, "json": whole}

    def results(self, *outputs: str) -> None:
        """Results of the last message's calls."""
        for call, output in zip(self.messages[-1]["tool_calls"], outputs, strict=True):
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": output})

    def say(self, text: str) -> None:
        self.messages.append({"role": "user", "content": text})

    def broken(self, message: JSON) -> JSON:
        """A streamed reply that breaks off behind a message's content and its first call's name."""
        deltas: list[JSON] = [{"role": "assistant", "content": message["content"] or ""}]
        for call in message.get("tool_calls", [])[:1]:
            started = {
                **call,
                "index": 0,
                "function": {"name": call["function"]["name"], "arguments": '{"com'},
            }
            deltas.append({"tool_calls": [started]})
        chunks = [{"id": "x", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        return {"status": 200, "sse": "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)}


class Claude(Chat):
    """A harness that speaks Anthropic Messages, as Claude Code does."""

    dialect = "messages"

    def __init__(
        self, tape: Tape, *, system: str = "You are an agent.", task: str = TASK, **headers: str
    ) -> None:
        super().__init__(tape, system=system, task=task, **headers)
        self.system: Any = [{"type": "text", "text": system}]
        del self.messages[0]

    def body(self) -> JSON:
        tools = [
            {"name": f["name"], "description": f["description"], "input_schema": f["parameters"]}
            for f in (tool["function"] for tool in self.tools)
        ]
        return {
            "model": "m",
            "max_tokens": 8192,
            "system": self.system,
            "messages": self.messages,
            "tools": tools,
        }

    def message(self, text: str | None, *commands: str) -> JSON:
        blocks: list[JSON] = [{"type": "text", "text": text}] if text else []
        for command in commands:
            call = {"type": "tool_use", "id": self.tape.new_id("toolu"), "name": "bash"}
            blocks.append({**call, "input": {"command": command}})
        return {"role": "assistant", "content": blocks}

    def reply(self, message: JSON, *, finish: str | None = None, status: int = 200) -> JSON:
        has_calls = any(block["type"] == "tool_use" for block in message["content"])
        reason = finish or ("tool_use" if has_calls else "end_turn")
        whole = {"id": self.tape.new_id("msg"), "type": "message", "role": "assistant"}
        return {"status": status, "json": {**whole, "content": message["content"], "stop_reason": reason}}

    def results(self, *outputs: str) -> None:
        calls = [block for block in self.messages[-1]["content"] if block["type"] == "tool_use"]
        blocks = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": output}
            for call, output in zip(calls, outputs, strict=True)
        ]
        self.messages.append({"role": "user", "content": blocks})

    def broken(self, message: JSON) -> JSON:
        events: list[JSON] = [{"type": "message_start", "message": {"id": self.tape.new_id("msg")}}]
        for index, block in enumerate(message["content"]):
            empty = {"text": ""} if block["type"] == "text" else {"input": {}}
            events.append(
                {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
            )
            if block["type"] == "text":
                delta = {"type": "text_delta", "text": block["text"]}
                events.append({"type": "content_block_delta", "index": index, "delta": delta})
        return {"status": 200, "sse": sse(events)}


class Codex(Chat):
    """A harness that speaks Responses; what it calls a message is a list of items."""

    dialect = "responses"

    def body(self) -> JSON:
        tools = [{"type": "function", **tool["function"]} for tool in self.tools]
        return {"model": "m", "input": self.messages, "tools": tools, "stream": True, "store": False}

    def turn(self, text: str | None = None, *commands: str, **fields: Any) -> Any:
        items = self.message(text, *commands)
        self.post(self.reply(items, **fields))
        self.messages += items
        return items

    def message(self, text: str | None, *commands: str) -> Any:
        items: list[JSON] = []
        if text is not None:
            part = {"type": "output_text", "text": text}
            items.append(
                {"type": "message", "id": self.tape.new_id("msg"), "role": "assistant", "content": [part]}
            )
        for command in commands:
            call_id = self.tape.new_id("call")
            call = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "bash"}
            items.append({**call, "arguments": json.dumps({"command": command})})
        return items

    def reply(self, message: Any, *, finish: str | None = None, status: int = 200) -> JSON:
        response = {"id": self.tape.new_id("resp"), "output": []}
        state = "incomplete" if finish == "length" else "completed"
        final = {**response, "status": state, "output": message}
        events = [*self._events(response, message), {"type": f"response.{state}", "response": final}]
        return {"status": status, "sse": sse(events)}

    def broken(self, message: Any) -> JSON:
        """A streamed reply whose items all arrive, but not its end."""
        return {"status": 200, "sse": sse(self._events({"id": self.tape.new_id("resp")}, message))}

    def _events(self, response: JSON, items: list[JSON]) -> list[JSON]:
        done = {"type": "response.output_item.done"}
        return [
            {"type": "response.created", "response": response},
            *({**done, "output_index": index, "item": item} for index, item in enumerate(items)),
        ]

    def results(self, *outputs: str) -> None:
        calls = [item for item in self.messages if item.get("type") == "function_call"][-len(outputs) :]
        for call, output in zip(calls, outputs, strict=True):
            self.messages.append(
                {"type": "function_call_output", "call_id": call["call_id"], "output": output}
            )


def sse(events: list[JSON]) -> str:
    """Server-sent events with names."""
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


def failure(status: int, message: str = "Overloaded") -> JSON:
    """An error reply."""
    return {"status": status, "json": {"type": "error", "error": {"type": "api_error", "message": message}}}
