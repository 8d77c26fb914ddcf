"""Gives a program inside a sandbox a terminal of its own: `python3 inner_terminal.py COMMAND…`.

Bytes go from standard input to that terminal and back, so that the other end of the pipe sees what it
would see of a terminal on its own machine, without the carriage returns that a terminal adds (the OpenHands
SDK drops them, but does not find its own prompt among them). Ends with the command, exits as it does, and
hangs up when standard input ends. Standard library only: it runs in the sandbox's Python.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import termios

_CHUNK = 65536
_STDIN, _STDOUT = 0, 1


def main() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    _add_no_carriage_returns(terminal)
    try:
        _relay(terminal)
    finally:
        os.close(terminal)  # the command's session is hung up
        os.kill(pid, signal.SIGHUP)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _add_no_carriage_returns(terminal: int) -> None:
    settings = termios.tcgetattr(terminal)
    settings[1] &= ~termios.ONLCR
    termios.tcsetattr(terminal, termios.TCSANOW, settings)


def _relay(terminal: int) -> None:
    """Until either end is gone. Never blocks on a write, which could wait for a read that never comes."""
    os.set_blocking(terminal, False)
    pending = b""
    while True:
        reads = [terminal] if pending else [terminal, _STDIN]
        readable, writable, _ = select.select(reads, [terminal] if pending else [], [])
        if terminal in readable and not _copy_output(terminal):
            return
        if _STDIN in readable:
            pending = _read(_STDIN)
            if not pending:
                return
        if terminal in writable:
            pending = pending[os.write(terminal, pending) :]


def _copy_output(terminal: int) -> bool:
    data = _read(terminal)
    while data:
        written = os.write(_STDOUT, data)
        if written == len(data):
            return True
        data = data[written:]
    return False


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK)
    except OSError:  # how a terminal says that nobody has it open any more
        return b""


if __name__ == "__main__":
    main()
