"""Imports mini-swe-agent once and forks one process per rollout, each running its own command line.

Runs in mini-swe-agent's own Python: `python mini_fork_server.py FD FOLDER`. One JSON object a line on
the socket FD:

    out  {"version": "2.4.6"}                                            once, when ready
    in   {"run": ID, "argv": […], "env": {…}, "cwd": PATH, "output": PATH}
    in   {"kill": ID}
    out  {"ended": ID, "exit_code": N, "cpu_s": X}                       −N when signal N ended it

Invariant: a rollout's processes form one session and die with it; when the other end of the socket
closes, however that came about, every session is killed and FOLDER is removed. Single-threaded, since
it forks. Knows nothing of what the program does.
"""

# pyright: basic, reportMissingImports=false
# minisweagent is installed in the harness's Python, not in ours.

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
import traceback
from pathlib import Path
from typing import Any

_PR_SET_PDEATHSIG = 1


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    folder = sys.argv[2]
    try:
        version = _load()
        _send(control, {"version": version})
        _Server(control).serve()
    except ConnectionError:
        pass  # the worker is gone: its sessions were killed, nobody is left to tell
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Server:
    """The rollouts in flight; `serve` returns when the socket closes."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
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

    def _obey(self, order: dict[str, Any]) -> None:
        if "kill" in order:
            if pid := self._pids.get(order["kill"]):
                _kill_session(pid)
            return
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become_mini(order, server, self._selector)
        self._pids[order["run"]] = pid
        self._selector.register(os.pidfd_open(pid), selectors.EVENT_READ, order["run"])

    def _ended(self, pidfd: int, rollout: str) -> None:
        self._selector.unregister(pidfd)
        os.close(pidfd)
        pid = self._pids.pop(rollout)
        _kill_session(pid)  # before it is reaped, while its pid cannot be anybody else's
        _, status, usage = os.wait4(pid, 0)
        cpu_s = usage.ru_utime + usage.ru_stime
        _send(
            self._control,
            {"ended": rollout, "exit_code": os.waitstatus_to_exitcode(status), "cpu_s": cpu_s},
        )


def _load() -> str:
    """Import the program and whatever its first model call would import; its version."""
    import minisweagent
    import minisweagent.agents.interactive
    import minisweagent.models.litellm_model
    import minisweagent.run.mini
    import sandbox_environment  # noqa: F401

    for name in _modules_of_a_call():
        # Some are not importable under the name they register, and none of them is needed.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that collections in the children leave the shared pages alone
    return minisweagent.__version__


def _modules_of_a_call() -> list[str]:
    """Modules loaded by a model call, found by making one in a child, to a port nobody listens on.

    In a child because a call also starts threads, which must not exist in a process that forks.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            _call_nobody()
            os.write(write, json.dumps(sorted(sys.modules)).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        names = pipe.read()
    os.waitpid(pid, 0)
    return [name for name in json.loads(names or "[]") if name not in sys.modules]


def _call_nobody() -> None:
    import litellm

    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        with contextlib.suppress(Exception):
            litellm.completion(
                model="openai/none", messages=[{"role": "user", "content": "x"}], api_base=base, max_retries=0
            )


def _become_mini(order: dict[str, Any], server: int, selector: selectors.BaseSelector) -> None:
    """Turn this freshly forked process into `mini`; never returns."""
    code = 1
    try:
        os.setsid()
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:  # it died before the line above
            os._exit(1)
        _inherit_nothing(order, selector)
        code = _run_mini(order["argv"])
    except BaseException:  # noqa: BLE001 (whatever it is, this process must not go on as the server)
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _inherit_nothing(order: dict[str, Any], selector: selectors.BaseSelector) -> None:
    for key in list(selector.get_map().values()):
        os.close(key.fd)
    output = os.open(order["output"], os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])


def _run_mini(argv: list[str]) -> int:
    from minisweagent.run.mini import app

    sys.argv = argv
    try:
        app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _kill_session(session: int) -> None:
    """Kill every process of a session whose leader has not been reaped yet: its id is still its own."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(session, signal.SIGKILL)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[3]) == session and int(stat.parent.name) != session:
                os.kill(int(stat.parent.name), signal.SIGKILL)


def _send(control: socket.socket, message: dict[str, Any]) -> None:
    control.sendall(json.dumps(message).encode() + b"\n")


if __name__ == "__main__":
    main()
