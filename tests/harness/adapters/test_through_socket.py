"""The loopback forwarder that a harness inside a sandbox talks through."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import lego_harness.adapters as adapters

PROGRAM = Path(adapters.__file__).parent / "programs" / "through_socket.py"
CLIENT = """
import os, socket, sys
with socket.create_connection(("127.0.0.1", int(os.environ["URL"].rpartition(":")[2])), timeout=10) as s:
    s.sendall(sys.argv[1].encode() * 100000)
    s.shutdown(socket.SHUT_WR)
    received = b""
    while data := s.recv(65536):
        received += data
print(len(received), os.environ["HOME"])
"""


@pytest.fixture
def upper_case(tmp_path: Path) -> Iterator[Path]:
    """A unix socket whose server answers in upper case once it has read everything."""
    path = tmp_path / "proxy.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                received = b""
                while data := connection.recv(65536):
                    received += data
                connection.sendall(received.upper())

    thread = threading.Thread(target=serve)
    thread.start()
    yield path
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join()


def run(
    path: Path, home: Path, *command: str, files: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-S", "-B", str(PROGRAM), str(path), str(home), *files, "--", *command]
    env = {"PATH": "/usr/bin:/bin", "URL": "http://127.0.0.1:{port}"}
    return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60, stdin=subprocess.DEVNULL)


def test_bytes_reach_the_socket_and_come_back(upper_case: Path, tmp_path: Path) -> None:
    result = run(upper_case, tmp_path / "home", sys.executable, "-c", CLIENT, "abc")
    assert result.stdout.split() == ["300000", str(tmp_path / "home")], result.stderr
    assert (tmp_path / "home").is_dir()


def test_files_lie_below_the_home_before_the_program_starts_and_know_the_port(tmp_path: Path) -> None:
    show = ("/bin/sh", "-c", 'cat "$HOME/a/b.toml" "$HOME/empty"; echo "$0 $URL"', "http://127.0.0.1:{port}")
    result = run(tmp_path / "s", tmp_path / "home", *show, files=("a/b.toml=x = 'é={port}'\n", "empty="))
    first, urls = result.stdout.splitlines()
    address, url = urls.split()
    assert address == url
    assert first == f"x = 'é={url.rpartition(':')[2]}'"


def test_a_proxy_that_is_gone_closes_the_connection_instead_of_hanging(tmp_path: Path) -> None:
    result = run(tmp_path / "nothing.sock", tmp_path, sys.executable, "-c", CLIENT, "")
    assert result.stdout.split()[:1] == ["0"] or "Error" in result.stderr


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill $$", 143)]
)
def test_the_exit_code_is_the_program_s_own(tmp_path: Path, script: str, code: int) -> None:
    assert run(tmp_path / "nothing.sock", tmp_path, "/bin/sh", "-c", script).returncode == code
