"""An engine that ends, or is none, is a fault with a reason, and no socket stays open."""

from __future__ import annotations

import gc
import socket
import threading
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from docker.errors import DockerException

from lego_harness.sandbox import docker_connection
from lego_harness.sandbox.docker_engine import FAULTS


@contextmanager
def answers_once(path: Path, body: bytes) -> Generator[None]:
    """Somebody who gives one answer on the socket and ends."""

    def answer() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        thread = threading.Thread(target=answer)
        thread.start()
        yield
        thread.join()


def test_an_engine_that_ends_between_two_calls_leaves_no_socket_open(tmp_path: Path) -> None:
    path = tmp_path / "engine.sock"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with answers_once(path, b'{"ApiVersion": "1.41"}'):
            client = docker_connection.client(f"unix://{path}", timeout_s=60)
        with pytest.raises(FAULTS):
            client.containers.list()
        client.close()
        del client
        gc.collect()
    assert [str(one.message) for one in caught] == []


@pytest.mark.parametrize("body", [b"[]", b"{}", b"not json", b"\xff"])
def test_what_is_no_engine_is_told_from_one(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "engine.sock"
    with answers_once(path, body), pytest.raises(DockerException, match=r"engine\.sock: no engine's answer"):
        docker_connection.client(f"unix://{path}", timeout_s=60)


def test_where_nobody_listens_the_reason_is_said(tmp_path: Path) -> None:
    with pytest.raises(DockerException, match=r"none\.sock: No such file"):
        docker_connection.client(f"unix://{tmp_path}/none.sock", timeout_s=60)
