"""Imports the `mcp` package, and what the server needs of it, in half of the usual time.

The package defines several hundred pydantic models, and unions of all of them. Pydantic builds the validator of each
when it is defined; told to defer, it builds only those that are used, on first use. The package's own `__init__`
imports its client, which no server needs, and its resources import an HTTP client, which ours never use. The garbage
collector would search all of this repeatedly and find nothing, because everything stays; it is paused meanwhile, and
leaves these objects out later.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, cast

_ASKED = "_defer_build"


@contextmanager
def starting(without: Sequence[str] = ("rich",)) -> Generator[None]:
    """Everything made inside stays to the end of the process. `without` names optional packages that are treated as
    absent: rich formats a log that nobody looks at, uvicorn serves HTTP."""
    gc.disable()
    try:
        with _absent(without):
            _import_mcp()
            yield
        gc.freeze()
    finally:
        gc.enable()


def _import_mcp() -> None:
    """Import its server."""
    _open_package("mcp")
    _postpone("httpx2")
    with _deferring():
        importlib.import_module("mcp.server")


@contextmanager
def _absent(names: Sequence[str]) -> Generator[None]:
    """Inside, an import of these fails unless they were imported before."""
    hidden = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden, cast(ModuleType, None)))
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


@contextmanager
def _deferring() -> Generator[None]:
    """Models and adapters made inside are built on first use; all others as usual."""
    from pydantic import BaseModel, TypeAdapter

    config = cast(dict[str, Any], BaseModel.model_config)
    # Of an adapter each maker would have to ask for it: what pydantic asks itself is answered for all of them. Where it
    # asks otherwise one day, they are built at once again.
    asked = vars(TypeAdapter).get(_ASKED)
    config["defer_build"] = True
    setattr(TypeAdapter, _ASKED, property(lambda adapter: True))
    try:
        yield
    finally:
        del config["defer_build"]
        if asked is None:
            delattr(TypeAdapter, _ASKED)
        else:
            setattr(TypeAdapter, _ASKED, asked)


def _open_package(name: str) -> None:
    """Let a package's modules be imported without running its `__init__`."""
    spec = importlib.util.find_spec(name)
    if spec is not None:
        sys.modules.setdefault(name, importlib.util.module_from_spec(spec))


def _postpone(name: str) -> None:
    """Import a module only when something of it is first used."""
    if name not in sys.modules and importlib.util.find_spec(name) is not None:
        sys.modules[name] = _Later(name)


class _Later(ModuleType):
    """Stands for a module until something of it is used. importlib's `LazyLoader` would not do: a second import
    asks the module whether it is ready, and thereby loads it."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)
