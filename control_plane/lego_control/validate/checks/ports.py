"""Loopback ports and unix sockets can be opened: the proxy and Ray live on them."""

from __future__ import annotations

import socket
import tempfile
from pathlib import Path

from lego_control.validate.base import Broken, Ground


def run(ground: Ground) -> str:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        with tempfile.TemporaryDirectory(prefix="lego-") as folder, socket.socket(socket.AF_UNIX) as local:
            local.bind(str(Path(folder) / "proxy.sock"))
    except OSError as error:
        raise Broken(
            f"a loopback port or a unix socket in {tempfile.gettempdir()} cannot be opened: {error}",
            "set TMPDIR to a short path on a local disk, and allow loopback",
        ) from error
    return f"loopback port {port} and a unix socket opened"
