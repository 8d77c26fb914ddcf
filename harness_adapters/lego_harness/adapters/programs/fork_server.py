"""Imports a harness once and forks one process per rollout: what every harness written in Python shares.

Runs in the harness's own Python, started by `adapters/fork_server.py` as `python PROGRAM FD FOLDER`,
where PROGRAM calls `serve`. One JSON object a line on the socket FD:

    out  {"version": "2.4.6"}                                            once, when ready
    in   {"run": ID, "argv": […], "env": {…}, "cwd": PATH, "output": PATH}
    in   {"kill": ID}
    out  {"ended": ID, "exit_code": N, "cpu_s": X}                       −N when signal N ended it

Invariant: a rollout's processes die with it, whatever sessions they have moved to; when the other end of
the socket closes, however that came about, every rollout is killed and FOLDER is removed.
Single-threaded, since it forks. Knows nothing of what the program does.
"""

# pyright: basic

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

Load = Callable[[], str]
"""Imports the program; its version."""
Run = Callable[[list[str]], int]
"""Becomes the program, in a process of its own; its exit code."""

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def serve(load: Load, run: Run) -> None:
    """Serve until the socket closes."""
    control = socket.socket(fileno=int(sys.argv[1]))
    folder = sys.argv[2]
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    try:
        version = load()
        gc.collect()
        gc.freeze()  # so that collections in the children leave the shared pages alone
        _send(control, {"version": version})
        _Server(control, run).serve()
    except ConnectionError:
        pass  # the worker is gone: its rollouts were killed, nobody is left to tell
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def import_what_it_uses(call: Callable[[], None]) -> None:
    """Import the modules that `call` loads, found by making it in a child.

    In a child because such a call may start threads, which must not exist in a process that forks.
    """
    for name in _modules_after(call):
        # Some are not importable under the name they register, and none of them is needed.
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def ask_nobody(complete: Callable[..., Any]) -> None:
    """Call litellm's `completion` as the program will, at a port where nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        message = {"role": "user", "content": "x"}
        with contextlib.suppress(Exception):
            complete(model="openai/none", messages=[message], api_base=base, api_key="x", max_retries=0)


def _modules_after(call: Callable[[], None]) -> list[str]:
    read, write = os.pipe()
    server = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read)
            _die_with(server)
            call()
            os.write(write, json.dumps(sorted(sys.modules)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        names = pipe.read()
    os.waitpid(pid, 0)
    return [name for name in json.loads(names or "[]") if name not in sys.modules]


class _Server:
    """The rollouts in flight; `serve` returns when the socket closes."""

    def __init__(self, control: socket.socket, run: Run) -> None:
        self._control = control
        self._run = run
        self._selector = selectors.DefaultSelector()
        self._pids: dict[str, int] = {}

    def serve(self) -> None:
        self._selector.register(self._control, selectors.EVENT_READ, None)
        pending = b""
        try:
            while True:
                for key, _ in self._selector.select():
                    if key.data is not None:
                        self._ended(key.fd, key.data)
                        continue
                    received = self._control.recv(65536)
                    if not received:
                        return
                    *lines, pending = (pending + received).split(b"\n")
                    for line in lines:
                        self._obey(json.loads(line))
        finally:
            for pid in self._pids.values():
                _kill_session(pid)
            self._pids.clear()
            self._kill_orphans()

    def _obey(self, order: dict[str, Any]) -> None:
        if "kill" in order:
            if pid := self._pids.get(order["kill"]):
                _kill_session(pid)
            return
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(order, server)
        self._pids[order["run"]] = pid
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, order["run"])

    def _become(self, order: dict[str, Any], server: int) -> None:
        """Turn this freshly forked process into the program; never returns."""
        code = 1
        try:
            os.setsid()
            _die_with(server)
            _inherit_nothing(order, self._selector)
            code = self._run(order["argv"])
        except BaseException:  # noqa: BLE001 (whatever it is, this process must not go on as the server)
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def _ended(self, pidfd: int, rollout: str) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        pid = self._pids.pop(rollout)
        _kill_session(pid)  # before it is reaped, while its pid cannot be anybody else's
        _, status, usage = os.wait4(pid, 0)
        self._kill_orphans()
        cpu_s = usage.ru_utime + usage.ru_stime
        _send(
            self._control,
            {"ended": rollout, "exit_code": os.waitstatus_to_exitcode(status), "cpu_s": cpu_s},
        )

    def _kill_orphans(self) -> None:
        """End what left its rollout's session: once its parent is dead, it is a child of this process."""
        alive = set(self._pids.values())
        while orphans := [p.pid for p in _processes() if p.parent == os.getpid() and p.pid not in alive]:
            for pid in orphans:
                with contextlib.suppress(ProcessLookupError, ChildProcessError):
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)


def _inherit_nothing(order: dict[str, Any], selector: selectors.BaseSelector) -> None:
    for key in list(selector.get_map().values()):
        os.close(key.fd)
    output = os.open(order["output"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(order["env"])
    tempfile.tempdir = None  # the server's, if importing the program asked for it
    os.chdir(order["cwd"])


class _Process(NamedTuple):
    pid: int
    parent: int
    session: int


def _processes() -> Iterator[_Process]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            yield _Process(int(stat.parent.name), int(fields[1]), int(fields[3]))


def _kill_session(session: int) -> None:
    """Kill every process of a session whose leader has not been reaped yet: its id is still its own."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(session, signal.SIGKILL)
    for process in _processes():
        if process.session == session and process.pid != session:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def _die_with(parent: int) -> None:
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)


def _send(control: socket.socket, message: dict[str, Any]) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")
