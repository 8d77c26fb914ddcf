"""Tries to get out, and says of each try what became of it.

Runs in the network namespace of a sandbox: in a thread of ours, or as a program of its own in a container
that shares it, so it imports nothing of this package. Invariant: a try counts as refused only when the
kernel said so at once; silence proves nothing, since a packet may have left.
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import socket
import sys
import time

PATIENCE_S = 5.0
"""The kernel refuses at once; this is for a machine that has far too much to do."""
REFUSED, OPEN, SILENT = "refused", "open", "silent"
_SAYS_NO = {
    errno.ENETUNREACH,
    errno.EHOSTUNREACH,
    errno.ECONNREFUSED,
    errno.EACCES,
    errno.EPERM,
    errno.ENETDOWN,
    errno.EADDRNOTAVAIL,
    errno.EAFNOSUPPORT,
}
_QUESTION = b"\x4c\x45\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03org\x00\x00\x01\x00\x01"
"""A DNS query for example.org, type A."""


def attempt(targets: list[tuple[str, str, int]]) -> list[str]:
    """One word per `(tcp or dns, address, port)`, all tried at once."""
    tries = [_begun(*target) for target in targets]
    deadline = time.monotonic() + PATIENCE_S
    while waiting := [one for one in tries if isinstance(one, socket.socket)]:
        left = deadline - time.monotonic()
        ready = _ready(waiting, max(0.0, left))
        if not ready and left <= 0:
            break
        tries = [_ended(one) if isinstance(one, socket.socket) and one in ready else one for one in tries]
    return [_given_up(one) if isinstance(one, socket.socket) else one for one in tries]


def _ready(waiting: list[socket.socket], patience_s: float) -> set[object]:
    """Answered or refused; a worker may have more files open than `select` can look at."""
    with selectors.DefaultSelector() as selector:
        for one in waiting:
            is_stream = one.type == socket.SOCK_STREAM
            selector.register(one, selectors.EVENT_READ | (selectors.EVENT_WRITE if is_stream else 0))
        return {key.fileobj for key, _ in selector.select(patience_s)}


def _begun(kind: str, address: str, port: int) -> socket.socket | str:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        one = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    except OSError as error:
        return _word(error.errno)
    one.setblocking(False)
    code = one.connect_ex((address, port))
    if code == 0 and kind == "dns":
        try:
            one.send(_QUESTION)
        except OSError as error:
            code = error.errno or errno.EIO
    if code in (0, errno.EINPROGRESS, errno.EAGAIN):
        return one
    one.close()
    return _word(code)


def _ended(one: socket.socket) -> str:
    code = one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    one.close()
    return _word(code) if code else OPEN


def _given_up(one: socket.socket) -> str:
    one.close()
    return SILENT


def _word(code: int | None) -> str:
    return f"{REFUSED} ({os.strerror(code)})" if code in _SAYS_NO else f"{SILENT} ({os.strerror(code or 0)})"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(attempt(json.loads(sys.argv[1]))))
