"""A run that outlives the terminal it was started from.

`start` starts a supervisor in a session of its own and returns as soon as the run has a name.
`python -m lego_control.detached FILE ARGUMENTS…` is that supervisor: it starts the core, writes into FILE where
the run is, waits, cleans up after a killed core, and records in the run's audit log how it ended. It
never restarts anything by itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from lego_control.spawn import has_ended, spawn
from lego_control.supervisor import CORE, RUN_LINE, refuse_without_core
from lego_core.leftovers import end_leftovers
from lego_core.store.mailbox import Asked, myself, post
from lego_harness.errors import InfrastructureError
from lego_harness.text import one_line

PATIENCE_S = 300.0
"""How long to wait until a core has named its run, which it does before anything slow."""
_LOOK_EVERY_S = 0.1


def start(arguments: Sequence[str], *, who: str, via: str, why: str, core: Sequence[str] = CORE) -> Path:
    """Start the core with `arguments`, detached; returns the run's directory. Raises InfrastructureError with the
    core's own words if it ends before it has one, and if it takes too long."""
    refuse_without_core()
    with tempfile.TemporaryDirectory(prefix="lego-start-") as folder:
        told, said = Path(folder) / "run", Path(folder) / "said"
        supervisor = spawn(["-m", "lego_control.detached", str(told), *core, *arguments], said)
        run = _wait_for_name(supervisor, told)
        if run is None:
            words = one_line(said.read_text(errors="replace"), limit=500, keep="end")
            raise InfrastructureError(f"the run did not start: {words or 'it said nothing'}")
    post(run, Asked.START, who=who, via=via, why=why, fields={"supervisor": supervisor})
    return run


def _wait_for_name(supervisor: int, told: Path) -> Path | None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        is_over = has_ended(supervisor)
        if told.exists() and (text := told.read_text()).endswith("\n"):
            return Path(text[:-1])
        if is_over:
            return None
        time.sleep(_LOOK_EVERY_S)
    os.kill(supervisor, signal.SIGTERM)
    raise InfrastructureError(
        f"the run did not start: it had no name after {PATIENCE_S:g} s; start it again when the machine has room"
    )


def supervise(told: Path, command: Sequence[str]) -> int:
    """Run the core to its end; returns its exit code, 128 + n if signal n ended it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as child:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: child.send_signal(number))
        assert child.stdout is not None
        run: Path | None = None
        for line in child.stdout:
            if line.startswith(RUN_LINE) and run is None:
                run = Path(line.removeprefix(RUN_LINE).rstrip("\n")).resolve()
                told.write_text(f"{run}\n")
                _let_go()
        code = child.wait()
    end_leftovers()
    if run is not None:
        why = f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
        post(run, Asked.ENDED, who=myself(), via="supervisor", why=why, fields={"code": code})
    return code if code >= 0 else 128 - code


def _let_go() -> None:
    """The starter's file is removed; from here on everything is in the run's own log."""
    with open(os.devnull, "wb") as nothing:  # noqa: PTH123 (a descriptor is wanted)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nothing.fileno(), stream.fileno())


if __name__ == "__main__":
    sys.exit(supervise(Path(sys.argv[1]), sys.argv[2:]))
