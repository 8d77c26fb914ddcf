"""What an agent did to its own sandbox, and what no sandbox has any more."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lego_harness.sandbox.base import Phase, SandboxBackend, SandboxSpec
from lego_harness.sandbox.usable import is_spoilt

Spec = Callable[..., SandboxSpec]


@pytest.mark.parametrize(
    ("script", "is_useless"),
    [
        ("true", False),
        ("rm -rf * ~/* /tmp/* 2>/dev/null; touch x", False),
        ("chmod 0 ~", True),
        ("chmod 0 /tmp", True),
        ("chmod 0 .", True),
    ],
)
async def test_a_sandbox_that_no_longer_serves_is_told_from_one_that_does(
    backend: SandboxBackend, spec: Spec, script: str, is_useless: bool
) -> None:
    wanted = spec(phase=Phase.AGENT)
    async with backend.open(wanted) as sandbox:
        await sandbox.exec(["sh", "-c", script], timeout_s=60)
        assert await is_spoilt(sandbox, backend, wanted) is is_useless
