"""Nothing of a launch that died is still running."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground
from lego_core.leftovers import count_leftovers


def run(ground: Ground) -> str:
    found = count_leftovers()
    if found:
        raise Broken(
            f"{found} processes of launches that died are still running",
            "the next lego train ends them; or start one now and stop it",
        )
    return "none"
