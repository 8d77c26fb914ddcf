"""What runs inside the sandbox for a harness outside it: a terminal, and the files."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Any

import pytest

import lego_harness.adapters as adapters

PROGRAMS = Path(adapters.__file__).parent / "programs"


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-B", str(PROGRAMS / program), *arguments]


def in_terminal(*command: str, typed: bytes = b"", hangs_up: bool = False) -> tuple[int, bytes]:
    """Exit code and output; who types stays until the command has ended, or leaves when it has said a line."""
    with subprocess.Popen(
        python("inner_terminal.py", *command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        said = process.stdout.readline() if hangs_up else b""
        typist = threading.Thread(target=_type, args=(process.stdin, typed, hangs_up))
        typist.start()
        said += process.stdout.read()
        typist.join()
    return process.returncode, said


def _type(terminal: IO[bytes], typed: bytes, hangs_up: bool) -> None:
    terminal.write(typed)
    terminal.flush()
    if hangs_up:
        terminal.close()


def ask(request: dict[str, Any]) -> dict[str, Any]:
    said = subprocess.run(
        python("inner_files.py"), input=json.dumps(request), capture_output=True, text=True, timeout=60
    )
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


# --- a terminal ----------------------------------------------------------------------------------


def test_the_command_has_a_terminal_that_it_controls_and_adds_no_carriage_returns() -> None:
    code, said = in_terminal("sh", "-c", "test -t 0 && echo hello >/dev/tty")
    assert (code, said) == (0, b"hello\n")


def test_no_output_is_lost_however_long_it_is() -> None:
    _, said = in_terminal("seq", "1", "50000")
    assert said.split() == [str(number).encode() for number in range(1, 50001)]


def test_what_is_typed_arrives_however_long_it_is() -> None:
    typed = b"".join(b"line %d\n" % number for number in range(20_000))
    _, said = in_terminal("sh", "-c", "stty -echo; head -n 20000 | md5sum", typed=typed)
    assert said.split()[-2].decode().endswith(hashlib.md5(typed, usedforsecurity=False).hexdigest())


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_the_exit_code_is_the_command_s_own(script: str, code: int) -> None:
    assert in_terminal("sh", "-c", script)[0] == code


def test_the_end_of_what_is_typed_hangs_up() -> None:
    code, _ = in_terminal("sh", "-c", "echo here; exec sleep 1000", hangs_up=True)
    assert code == 128 + signal.SIGHUP


# --- the files -----------------------------------------------------------------------------------


def test_a_file_is_told_whole_a_large_one_by_its_size(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"\x00\xff")
    with (tmp_path / "large").open("wb") as large:
        large.truncate(11 * 2**20)
    small, large_ = ask({"look": str(tmp_path / "small")}), ask({"look": str(tmp_path / "large")})
    assert (small["is"], base64.b64decode(small["data"]), small["size"]) == ("file", b"\x00\xff", 2)
    assert (large_["is"], large_["data"], large_["size"]) == ("file", None, 11 * 2**20)
    assert small["mtime_ns"] == (tmp_path / "small").stat().st_mtime_ns


def test_a_folder_is_listed_two_levels_deep(tmp_path: Path) -> None:
    for name in ("a/b/c", "a/.hidden", ".git/config", "z"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    expected = [[".git", True], ["a", True], ["a/b", True], ["z", False]]
    assert ask({"look": str(tmp_path)}) == {"is": "folder", "entries": expected}


@pytest.mark.parametrize("name", ["gone", "gone/deeper", "file/below", "loop", "\0", "\ud800"])
def test_what_is_not_there_is_missing(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    assert ask({"look": f"{tmp_path}/{name}"}) == {"is": "missing"}


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert ask({"look": str(tmp_path / "pipe")}) == {"is": "other"}


def test_a_refusal_is_told_as_the_system_tells_it(tmp_path: Path) -> None:
    refused = ask({"look": f"{tmp_path}/{'x' * 300}"})
    assert (refused["why"], refused["path"]) == ("File name too long", f"{tmp_path}/{'x' * 300}")
    refused = ask({"put": f"{tmp_path}/no/file", "data": ""})
    assert refused["why"] == "No such file or directory"
    assert refused["path"].startswith(f"{tmp_path}/no/.file.")


def test_a_file_is_replaced_whole_and_keeps_its_permissions(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("old")
    script.chmod(0o751)
    assert ask({"put": str(script), "data": base64.b64encode(b"new").decode()}) == {}
    assert (script.read_bytes(), script.stat().st_mode & 0o7777) == (b"new", 0o751)
    assert list(tmp_path.iterdir()) == [script]
