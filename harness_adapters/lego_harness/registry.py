"""The harnesses that can be chosen by name. Adding one is a line here and a file in `adapters/`."""

from __future__ import annotations

from collections.abc import Callable

from lego_harness.adapters.base import Adapter
from lego_harness.adapters.claude_code import claude_code
from lego_harness.adapters.codex import codex
from lego_harness.adapters.command import command
from lego_harness.adapters.install import CLAUDE_CODE, CODEX, MINI_SWE, OPENCODE, OPENHANDS
from lego_harness.adapters.mini_swe import mini_swe
from lego_harness.adapters.opencode import opencode
from lego_harness.adapters.openhands import openhands
from lego_harness.adapters.options import HarnessOptions
from lego_harness.errors import UsageError

_ADAPTERS: dict[str, Callable[[HarnessOptions], Adapter]] = {
    MINI_SWE.name: mini_swe,
    CLAUDE_CODE.name: claude_code,
    OPENCODE.name: opencode,
    CODEX.name: codex,
    OPENHANDS.name: openhands,
    "command": command,
}


def harness_names() -> tuple[str, ...]:
    """Every name that `get_adapter` knows."""
    return tuple(_ADAPTERS)


def get_adapter(name: str, options: HarnessOptions | None = None) -> Adapter:
    """A new adapter of the named harness, not started; raises UsageError."""
    if name not in _ADAPTERS:
        raise UsageError(f"harness {name!r} is unknown; expected one of: {', '.join(_ADAPTERS)}")
    return _ADAPTERS[name](options or HarnessOptions())
