"""What a try to get out is called, wherever it is made."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lego_harness.sandbox import egress_probe


@pytest.fixture
def many_open_files() -> Iterator[None]:
    """So many that no further descriptor is one that `select` knows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with ExitStack() as files:
        while files.enter_context(open("/dev/null")).fileno() < 1024:  # noqa: PTH123 a device, not a file to read
            pass
        yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("many_open_files")
def test_who_listens_is_open_and_who_does_not_is_refused_however_many_files_are_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ports = [server.getsockname()[1], free.getsockname()[1]]
        words = egress_probe.attempt([("tcp", "127.0.0.1", port) for port in ports])
    assert words[0] == egress_probe.OPEN
    assert words[1].startswith(egress_probe.REFUSED)
