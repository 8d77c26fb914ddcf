"""Runs a program inside a sandbox whose only way out is a unix socket, for programs that need TCP.

`python3 through_socket.py SOCKET HOME [FILE=TEXT…] -- COMMAND…`, with `{port}` in TEXT, COMMAND and
environment values replaced by the loopback port that leads to SOCKET, and each TEXT written to FILE
below HOME, executable where it is a script. Exits as COMMAND does (128 + signal when one ended it).
Standard library only: it runs in the sandbox's Python. Reads nothing of what it forwards.
"""

# ruff: noqa: PTH101, PTH103, PTH120, PTH123
# pathlib would cost half the start-up time.
from __future__ import annotations

import os
import socket
import sys
import threading


def main() -> None:
    path, home, *rest = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    threading.Thread(target=_accept, args=(listener, path), daemon=True).start()
    port = str(listener.getsockname()[1])
    rest = [word.replace("{port}", port) for word in rest]
    env = {name: value.replace("{port}", port) for name, value in os.environ.items()}
    separator = rest.index("--")
    _write(home, rest[:separator])
    os._exit(_run(rest[separator + 1 :], {**env, "HOME": home}))


def _write(home: str, files: list[str]) -> None:
    os.makedirs(home, exist_ok=True)
    for name, _, text in (word.partition("=") for word in files):
        path = f"{home}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        if text.startswith("#!"):
            os.chmod(path, 0o755)


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
