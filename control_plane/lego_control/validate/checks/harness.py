"""The recipe's harness starts in a sandbox and makes a real call to the proxy."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground, Skip
from lego_harness.errors import LegoError
from lego_harness.registry import get_adapter
from lego_harness.wire.recorder import record


async def run(ground: Ground) -> str:
    harness = ground.recipe.harness
    try:
        await get_adapter(harness.name, harness.options).check()
        if harness.name == "command":
            raise Skip("a program of your own is only looked for: what it asks is not known here")
        calls = await record(harness.name, "plain", ground.backend)
    except LegoError as error:
        raise Broken(
            str(error), f"install it: python -m lego_harness.adapters.install {harness.name}"
        ) from error
    return f"{harness.name} made {len(calls)} calls"
