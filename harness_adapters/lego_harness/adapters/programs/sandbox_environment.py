"""A plug-in for mini-swe-agent: its commands run inside a sandbox, and are reported as its own are.

Loaded by mini-swe-agent's own `environment_class` setting, in mini-swe-agent's own Python. Invariant:
the program sees what its local environment would have shown it (combined output, return code, time
limit, submission), and nothing of the host. Bounds what it keeps of a command's output.
"""

# pyright: basic, reportMissingImports=false
# minisweagent is installed in the harness's Python, not in ours.

from __future__ import annotations

import os
import platform
import selectors
import signal
import subprocess
import time
from typing import Any

from minisweagent.environments.local import LocalEnvironment, LocalEnvironmentConfig
from minisweagent.utils.serialize import recursive_merge

MAX_OUTPUT_BYTES = 200_000
"""Far above the 10,000 characters that mini-swe-agent shows; the middle of more is dropped."""
_GRACE_S = 2
_SYSTEM = {
    "system": "Linux",
    "release": "sandbox",
    "version": "without network",
    "machine": platform.machine(),
}
"""What the prompt says about the machine: the sandbox, the same on every host."""


class SandboxEnvironmentConfig(LocalEnvironmentConfig):
    """mini-swe-agent's own settings, and the argv that leads into the sandbox."""

    prefix: list[str]


class SandboxEnvironment(LocalEnvironment):
    """Runs each command as `prefix… bash -c command`; everything else is mini-swe-agent's own."""

    def __init__(self, *, config_class: type = SandboxEnvironmentConfig, **settings: Any) -> None:
        super().__init__(config_class=config_class, **settings)

    def execute(self, action: dict, cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Run one command; raises mini-swe-agent's `Submitted` when it submits."""
        command = action.get("command", "")
        limit = timeout or self.config.timeout
        try:
            returncode, text = _run(self._argv(command, cwd, limit), command, limit)
            output = {"output": text, "returncode": returncode, "exception_info": ""}
        except (OSError, TypeError, ValueError, subprocess.TimeoutExpired) as error:
            output = {
                "output": getattr(error, "output", None) or "",
                "returncode": -1,
                "exception_info": f"An error occurred while executing the command: {error}",
                "extra": {"exception_type": type(error).__name__, "exception": str(error)},
            }
        self._check_finished(output)
        return output

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """Constants in place of the host's uname and variables."""
        return recursive_merge(self.config.model_dump(), _SYSTEM, kwargs)

    def _argv(self, command: str, cwd: str, limit: int) -> list[str]:
        variables = [f"{name}={value}" for name, value in self.config.env.items()]
        where = ["-C", cwd] if cwd else []
        # The limit is ours to keep; `timeout` ends what a client killed outside leaves running inside.
        janitor = ["timeout", "--signal=KILL", str(limit + _GRACE_S)]
        return [*self.config.prefix, "env", *where, *variables, *janitor, "bash", "-c", command]


def _run(argv: list[str], command: str, limit: int) -> tuple[int, str]:
    """Return code and text; raises TimeoutExpired as `subprocess` does, after killing the group."""
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0
    )
    assert process.stdout is not None
    kept = bytearray()
    with process.stdout:
        ended = _read(process.stdout.fileno(), kept, limit)
        if not ended:
            os.killpg(process.pid, signal.SIGKILL)
            _read(process.stdout.fileno(), kept, _GRACE_S)
    returncode = process.wait()
    if not ended:
        raise subprocess.TimeoutExpired(command, limit, output=_text(kept))
    return returncode, _text(kept)


def _read(fd: int, kept: bytearray, limit_s: float) -> bool:
    """Read to the end, dropping the middle of what is too long; False when the time is over."""
    deadline = time.monotonic() + limit_s
    with selectors.DefaultSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if not selector.select(left):
                continue
            chunk = os.read(fd, 65536)
            if not chunk:
                return True
            kept += chunk
            if len(kept) > 2 * MAX_OUTPUT_BYTES:
                del kept[MAX_OUTPUT_BYTES // 2 : -MAX_OUTPUT_BYTES // 2]
    return False


def _text(kept: bytearray) -> str:
    """As `subprocess` decodes in text mode."""
    return kept.decode("utf-8", errors="replace").replace("\r\n", "\n").replace("\r", "\n")
