"""Agent Lightning's LLM proxy over its store, both in one process; run by the Python of its environment.

It is LiteLLM's proxy with a middleware for rollouts, `return_token_ids` added to each request, and an
exporter that keeps spans in the store. Argument: URL of the upstream.
"""

from __future__ import annotations

import asyncio
import socket
import sys

from agentlightning import InMemoryLightningStore, LLMProxy

from benchmarks.control import Place, serve_control

IDS = "llm.hosted_vllm.prompt_token_ids"


class Sessions:
    """Rollouts of the store."""

    def __init__(self, store: InMemoryLightningStore, url: str) -> None:
        self._store, self._url = store, url

    async def open(self) -> Place:
        rollout = await self._store.start_rollout(input={})
        path = f"rollout/{rollout.rollout_id}/attempt/{rollout.attempt.attempt_id}"
        return {"url": f"{self._url}/{path}/v1", "headers": {}, "rollout": rollout.rollout_id}

    async def close(self, place: Place) -> dict[str, int]:
        """Counts what was stored a moment after the last reply: spans are exported in the background."""
        spans = await self._store.query_spans(place["rollout"])
        prompts = [str(span.attributes[IDS]) for span in spans if IDS in span.attributes]
        tokens = max((prompt.count(",") + 1 for prompt in prompts), default=0)
        return {"turns": len(prompts), "branches": 0, "tokens": tokens}


async def serve(upstream: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    store = InMemoryLightningStore(thread_safe=True)
    parameters = {"model": "hosted_vllm/policy", "api_base": f"{upstream}/v1", "api_key": "none"}
    models = [{"model_name": "policy", "litellm_params": parameters}]
    proxy = LLMProxy(port=port, model_list=models, store=store, host="127.0.0.1", launch_mode="thread")
    await proxy.start()
    sessions = Sessions(store, f"http://127.0.0.1:{port}")
    await serve_control(sessions.open, sessions.close)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
