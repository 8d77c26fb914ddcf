"""The core's own proofs, as checks: engine, weight sync, agreement, routes, checkpoint."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from lego_control.validate.base import Broken, Ground, Skip
from lego_harness.errors import InfrastructureError


def proof(name: str) -> Callable[[Ground], Awaitable[str]]:
    """The check that tells the core's proof `name`."""

    async def run(ground: Ground) -> str:
        told = (await ground.proofs(ground)).get(name)
        if told is None:
            raise InfrastructureError(f"the core said nothing of {name}")
        if told["status"] == "skipped":
            raise Skip(told["evidence"])
        if told["status"] == "error":
            raise InfrastructureError(told["evidence"])
        if told["status"] != "passed":
            raise Broken(told["evidence"], told["remedy"])
        return told["evidence"]

    return run
