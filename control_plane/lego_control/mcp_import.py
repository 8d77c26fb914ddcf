"""Imports the `mcp` package without building models that no client will use.

It defines several hundred pydantic models and pydantic builds the validator of each when its class is made; asked
to defer, it builds them when they are first used, which halves the time until the server answers.
"""

from __future__ import annotations

import importlib
from typing import Any, cast


def import_mcp() -> None:
    """Import it; classes made by anybody else are built as ever."""
    from pydantic import BaseModel

    config = cast(dict[str, Any], BaseModel.model_config)
    config["defer_build"] = True
    try:
        importlib.import_module("mcp.server")
    finally:
        del config["defer_build"]
