"""A harness reduced to its wire: posts Chat Completions bodies and keeps the history it would keep."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.session import Session
from lego_harness.types import Budget, Sampling

SYSTEM = {"role": "system", "content": "You are an agent."}
BASH = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Run a command.",
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string"}, "timeout": {"type": "number", "default": 30}},
            "required": ["command"],
        },
    },
}


class Talk:
    """One session and the messages of its harness, which a test may rewrite at will."""

    def __init__(self, session: Session, http: aiohttp.ClientSession) -> None:
        self.session = session
        self.http = http
        self.url = session.endpoint.host_url
        self.messages: list[dict[str, Any]] = [SYSTEM, {"role": "user", "content": "Repair calc.py."}]
        self.tools: list[dict[str, Any]] = [copy.deepcopy(BASH)]
        self.headers: dict[str, str] = {}

    @classmethod
    @asynccontextmanager
    async def begin(
        cls,
        proxy: CaptureProxy,
        *,
        rollout_id: str = "s00001.g00.r0",
        sampling: Sampling | None = None,
        budget: Budget | None = None,
    ) -> AsyncIterator[Talk]:
        session = proxy.open_session(rollout_id, sampling or Sampling(seed=7), budget or Budget())
        async with aiohttp.ClientSession() as http:
            yield cls(session, http)

    async def post(self, headers: dict[str, str] | None = None, **fields: Any) -> tuple[int, dict[str, Any]]:
        """Send the history as it is; status and JSON of the answer."""
        body = {"model": "policy", "messages": self.messages, "tools": self.tools, **fields}
        url = f"{self.url}/v1/chat/completions"
        async with self.http.post(url, json=body, headers=headers or self.headers) as answer:
            return answer.status, await answer.json()

    async def turn(self) -> dict[str, Any]:
        """Send the history, keep the reply in it; the reply message."""
        status, answer = await self.post()
        assert status == 200, answer
        message = answer["choices"][0]["message"]
        self.messages.append(message)
        return message

    def result(self, output: str, call: int = 0) -> None:
        """Add the result of a call of the last reply."""
        call_id = self.messages[-1 - call]["tool_calls"][call]["id"]
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": output})

    async def tool_turn(self, output: str = "ok") -> dict[str, Any]:
        """A turn whose first call is answered with `output`."""
        message = await self.turn()
        self.result(output)
        return message
