"""The proxy's view of an inference engine: ids in, ids out.

The harness side never learns how the engine is reached (Ray, HTTP, in process) or how weights get
there; a policy version is an integer it copies from the reply.
"""

from __future__ import annotations

from typing import Protocol

from lego_harness.types import GenerateRequest, Generation


class Engine(Protocol):
    """Token-in, token-out. Implementations live outside this package."""

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample until a stop id or `max_tokens`. Raises EngineError; cancelling frees the work."""
        ...
