"""Docker tests need an engine: without one they are skipped with the reason, unless the caller insists.
Programs under test can be interrupted, however the suite itself was started; laws hold however slow the machine."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from lego_core.ray_places import own_environment

# A loaded machine is no failure of a law.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

CORE = Path(__file__).with_name("core")
MOST_WORKERS = 8
"""About a gigabyte each, which they keep until the last test has ended."""


def pytest_configure() -> None:
    os.environ.update(own_environment())
    # A shell's background job ignores SIGINT, and so would every program that it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """`-n auto`: of the cores that we may use, where xdist counts those of the whole machine. Each worker imports
    everything the tests do."""
    if os.environ.get("PYTEST_XDIST_AUTO_NUM_WORKERS"):
        return None  # xdist reads it
    return min(len(os.sched_getaffinity(0)), MOST_WORKERS)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    """Tests with real parts look at the whole machine (what is left running, what lies in its temporary
    folder, what nobody owns), so they come behind the others and one after another, however many workers there
    are. Those of the core look at what they have started themselves, and run beside them."""
    _require_an_engine(items)
    for item in items:
        if _has_real_parts(item):
            item.add_marker(pytest.mark.xdist_group("core" if CORE in item.path.parents else "real"))
    yield
    _require_groups(config, items)
    items.sort(key=_has_real_parts)


def _has_real_parts(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("slow", "docker", "soak", "gpu"))


def _require_groups(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A worker of xdist names the group behind a test's id, unless it does not know this pytest."""
    if not config.getoption("loadgroup", default=False):
        return
    for item in items:
        if item.get_closest_marker("xdist_group") and "@" not in item.nodeid.rpartition("]")[2]:
            raise pytest.UsageError(f"{item.nodeid} bears no group: does pytest-xdist know this pytest?")


def _require_an_engine(items: list[pytest.Item]) -> None:
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
