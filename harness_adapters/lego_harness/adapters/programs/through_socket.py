"""Runs a program inside a sandbox whose only way out is a unix socket, for programs that need TCP.

`python3 through_socket.py SOCKET HOME COMMAND…`, with `{port}` in environment values replaced by the
loopback port that leads to SOCKET. Exits as COMMAND does (128 + signal when one ended it). Standard
library only: it runs in the sandbox's Python. Reads nothing of what it forwards.
"""

from __future__ import annotations

import os
import socket
import sys
import threading


def main() -> None:
    path, home, *command = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    threading.Thread(target=_accept, args=(listener, path), daemon=True).start()
    os.makedirs(home, exist_ok=True)  # noqa: PTH103 (pathlib would cost half the start-up time)
    os._exit(_run(command, {**_with_port(listener.getsockname()[1]), "HOME": home}))


def _with_port(port: int) -> dict[str, str]:
    return {name: value.replace("{port}", str(port)) for name, value in os.environ.items()}


def _run(command: list[str], env: dict[str, str]) -> int:
    pid = os.posix_spawnp(command[0], command, env)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _accept(listener: socket.socket, path: str) -> None:
    while True:
        inner, _ = listener.accept()
        threading.Thread(target=_forward, args=(inner, path), daemon=True).start()


def _forward(inner: socket.socket, path: str) -> None:
    with inner, socket.socket(socket.AF_UNIX) as outer:
        try:
            outer.connect(path)
        except OSError:  # the proxy is gone: the program sees its connection closed
            return
        back = threading.Thread(target=_pipe, args=(outer, inner), daemon=True)
        back.start()
        _pipe(inner, outer)
        back.join()


def _pipe(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:  # one side went away: wake the thread that waits for the other
        for end in (source, target):
            try:  # noqa: SIM105 (contextlib would cost half the start-up time)
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


if __name__ == "__main__":
    main()
