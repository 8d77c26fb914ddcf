"""Docker tests need an engine: without one they are skipped with the reason, unless the caller insists."""

from __future__ import annotations

import os
import subprocess

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """`LEGO_REQUIRE_DOCKER=1` (CI, which starts an engine) turns a missing engine into failures."""
    needing = [item for item in items if item.get_closest_marker("docker")]
    if not needing or os.environ.get("LEGO_REQUIRE_DOCKER") or _engine_answers():
        return
    for item in needing:
        item.add_marker(pytest.mark.skip(reason="no Docker engine answers; .ci/run starts one"))


def _engine_answers() -> bool:
    # By the client program: docker-py leaks its socket when nobody answers, and warnings are errors.
    try:
        return subprocess.run(["docker", "version"], capture_output=True, timeout=10).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
