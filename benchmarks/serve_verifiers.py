"""The interception server of verifiers in a process of its own; run by the Python of its environment.

As prime-rl trains with it: its train client renders and tokenises there, its engine gets and gives ids
(`upstream.py`). Arguments: URL of the upstream, folder of the checkpoint.
"""

from __future__ import annotations

import asyncio
import sys

from renderers import Qwen3RendererConfig
from verifiers.v1.clients import ModelContext, TrainClientConfig
from verifiers.v1.interception.server import InterceptionServer
from verifiers.v1.session import RolloutSession
from verifiers.v1.trace import AgentInfo, Trace, TraceTask

from benchmarks.control import Place, serve_control


class Sessions:
    """The open ones, by their secret."""

    def __init__(self, server: InterceptionServer, context: ModelContext) -> None:
        self._server, self._context = server, context
        self._open: dict[str, tuple[RolloutSession, tuple[str, str]]] = {}

    async def open(self) -> Place:
        task = TraceTask.model_construct(type="benchmark", data=None)
        trace = Trace.model_construct(task=task, agent=AgentInfo.model_construct(config=None))
        session = RolloutSession(ctx=self._context, trace=trace)
        secrets = self._server.register(session)
        self._open[secrets[0]] = session, secrets
        headers = {"Authorization": f"Bearer {secrets[0]}"}
        return {"url": f"{self._server.base_url}/v1", "headers": headers, "secret": secrets[0]}

    async def close(self, place: Place) -> dict[str, int]:
        session, secrets = self._open.pop(place["secret"])
        self._server.unregister(*secrets)
        branches = session.trace.branches
        tokens = sum(len(branch.token_ids) for branch in branches)
        return {"turns": session.trace.num_turns, "branches": len(branches), "tokens": tokens}


async def serve(upstream: str, model_dir: str) -> None:
    client = TrainClientConfig(
        base_url=f"{upstream}/v1",
        api_key_var="NO_KEY",
        renderer=Qwen3RendererConfig(),
        renderer_model_name=model_dir,
    )
    async with InterceptionServer() as server:
        sessions = Sessions(server, ModelContext(model="policy", client=client))
        await serve_control(sessions.open, sessions.close)


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
