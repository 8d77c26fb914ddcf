"""Imports the `mcp` package, and what is served by it, in half of the time that this takes by itself.

The package defines several hundred pydantic models. Pydantic builds the validator of each when its class is made;
asked to defer, it builds those that are used when they are first used. The package's own `__init__` imports its
client, which no server needs, and its resources an HTTP client, which ours never use. The garbage collector looks
through everything again and again and finds nothing, since it stays; it rests meanwhile, and leaves it out later.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast


@contextmanager
def starting() -> Generator[None]:
    """What is made inside stays to the end of the process."""
    gc.disable()
    try:
        _import_mcp()
        yield
        gc.freeze()
    finally:
        gc.enable()


def _import_mcp() -> None:
    """Import its server; classes made by anybody else are built as ever."""
    from pydantic import BaseModel

    _open_package("mcp")
    _postpone("httpx2")
    config = cast(dict[str, Any], BaseModel.model_config)
    config["defer_build"] = True
    try:
        importlib.import_module("mcp.server")
    finally:
        del config["defer_build"]


def _open_package(name: str) -> None:
    """Let its modules be imported without running its `__init__`."""
    spec = importlib.util.find_spec(name)
    if spec is not None:
        sys.modules.setdefault(name, importlib.util.module_from_spec(spec))


def _postpone(name: str) -> None:
    """Let it be imported where something of it is first used."""
    spec = importlib.util.find_spec(name)
    if name in sys.modules or spec is None or spec.loader is None:
        return
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
