"""The harnesses that can be chosen by name. Adding one is a line here and a file in `adapters/`."""

from __future__ import annotations

from collections.abc import Callable

from lego_harness.adapters.base import Adapter
from lego_harness.adapters.claude_code import ClaudeCodeAdapter
from lego_harness.adapters.mini_swe import MiniSweAdapter
from lego_harness.errors import UsageError

_ADAPTERS: dict[str, Callable[[], Adapter]] = {
    MiniSweAdapter.name: MiniSweAdapter,
    ClaudeCodeAdapter.name: ClaudeCodeAdapter,
}


def get_adapter(name: str) -> Adapter:
    """A new adapter of the named harness, not started; raises UsageError."""
    if name not in _ADAPTERS:
        raise UsageError(f"harness {name!r} is unknown; expected one of: {', '.join(_ADAPTERS)}")
    return _ADAPTERS[name]()
