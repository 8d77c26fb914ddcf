"""Connections to an engine's unix socket that are closed whatever becomes of them.

The library leaves its socket open where nobody listens (docker 7.2), and an engine may end between any two
calls. Owns the one way in which both the library and our watch connect; knows nothing of containers.
"""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any, cast

import docker
from docker.errors import DockerException
from docker.transport.unixconn import UnixHTTPAdapter, UnixHTTPConnection, UnixHTTPConnectionPool

_UNIX = "unix://"


def path_of(host: str) -> str | None:
    """The file of an engine that listens on a unix socket."""
    return host.removeprefix(_UNIX) if host.startswith(_UNIX) else None


def client(host: str, *, timeout_s: int) -> Any:
    """The library's client; close it. Raises DockerException where no engine answers."""
    path = path_of(host)
    if path is None:
        return docker.DockerClient(base_url=host, timeout=timeout_s)
    # Told the version, the library does not ask for it on a connection of its own making.
    engine = docker.DockerClient(base_url=host, timeout=timeout_s, version=_api_version(path, timeout_s))
    engine.api.mount("http+docker://", _Adapter(f"http+unix://{path}", timeout_s))
    return engine


def connection(path: str, *, timeout_s: float) -> http.client.HTTPConnection:
    """Raises OSError where nobody listens; one that ends is not opened again."""
    opened = http.client.HTTPConnection("engine", timeout=timeout_s)
    opened.sock = _connected(path, timeout_s)
    opened.auto_open = 0
    return opened


def version(opened: http.client.HTTPConnection) -> dict[str, Any]:
    """What the engine says of itself; raises OSError, HTTPException and ValueError."""
    opened.request("GET", "/version")
    said: Any = json.loads(opened.getresponse().read())
    if not isinstance(said, dict):
        raise ValueError(f"the engine's version: expected an object, got {type(said).__name__}")
    return cast(dict[str, Any], said)


def _api_version(path: str, timeout_s: float) -> str:
    try:
        opened = connection(path, timeout_s=timeout_s)
        try:
            return str(version(opened)["ApiVersion"])
        finally:
            opened.close()
    except OSError as error:
        raise DockerException(f"{_UNIX}{path}: {error.strerror or error}") from error
    except (http.client.HTTPException, ValueError, KeyError) as error:
        raise DockerException(f"{_UNIX}{path}: no engine's answer: {error!r}") from error


def _connected(path: str, timeout_s: float) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX)
    try:
        opened.settimeout(timeout_s)
        opened.connect(path)
    except BaseException:  # raised again
        opened.close()
        raise
    return opened


class _Connection(UnixHTTPConnection):
    timeout: Any  # of these three the library says no types
    unix_socket: Any
    sock: Any

    def connect(self) -> None:
        self.sock = _connected(self.unix_socket, self.timeout)


class _Pool(UnixHTTPConnectionPool):
    base_url: Any
    socket_path: Any
    timeout: Any

    def _new_conn(self) -> Any:
        return _Connection(self.base_url, self.socket_path, self.timeout)


class _Adapter(UnixHTTPAdapter):
    pools: Any

    def get_connection(self, url: Any, proxies: object = None) -> Any:
        with self.pools.lock:
            if self.pools.get(url) is None:
                self.pools[url] = _Pool(url, self.socket_path, self.timeout, maxsize=self.max_pool_size)
            return self.pools[url]
