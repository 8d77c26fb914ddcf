"""A cache of harnesses of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lego_harness.adapters.install import CLAUDE_CODE, CODEX, OPENCODE, Harness

BINARY = {
    CLAUDE_CODE.name: "node_modules/@anthropic-ai/claude-code-linux-x64/claude",
    CODEX.name: "node_modules/@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
    OPENCODE.name: "node_modules/opencode-linux-x64/bin/opencode",
}


@pytest.fixture
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Installs a stand-in for a harness, which says its version and nothing else; returns its binary."""
    monkeypatch.setenv("LEGO_CACHE", str(tmp_path / "cache"))

    def put(harness: Harness, version: str = "") -> Path:
        binary = harness.folder / BINARY[harness.name]
        binary.parent.mkdir(parents=True, exist_ok=True)
        binary.write_text(f"#!/bin/sh\necho '{harness.name} {version or harness.version}'\n")
        binary.chmod(0o755)
        return binary

    return put
