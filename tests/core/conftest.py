"""One Ray per test module, with the settings a run has: loopback, no dashboard, no token."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# A loaded machine is no failure of a law.
settings.register_profile("core", deadline=None)
settings.load_profile("core")


@pytest.fixture(scope="module")
def ray_session():
    import ray

    os.environ.update(RAY_AUTH_MODE="disabled", RAY_USAGE_STATS_ENABLED="0")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=128 * 2**20,
        _node_ip_address="127.0.0.1",
    )
    yield
    ray.shutdown()
