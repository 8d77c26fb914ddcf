"""A Ray for a test module, with the settings a run has: no dashboard, a token (`conftest.py`), files of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def own_ray() -> Iterator[None]:
    """Nobody else's, and nothing of it is left."""
    import ray

    # Its sockets lie in the folder: a path of more than about 100 bytes would not fit a unix address.
    with tempfile.TemporaryDirectory(prefix="lego-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        ray.init(
            address="local",
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=128 * 2**20,
            _node_ip_address="127.0.0.1",
            _temp_dir=folder,
        )
        try:
            yield
        finally:
            ray.shutdown()
