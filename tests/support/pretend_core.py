"""Stands in for `lego_core.launch`: writes a run as the real one would, and does as it is told.

pretend_core.py RUNS_DIR [finish | refuse | crash | wait | flood]
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from lego_core.store import RunWriter
from tests.support.runs import heldout, recipe, step, trajectory


def main(runs_dir: Path, behaviour: str) -> int:
    """Exit code, as `lego_core.launch` gives it."""
    if behaviour == "refuse":
        print("lego: no sandbox backend; install bubblewrap", file=sys.stderr)  # noqa: T201
        return 3
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    writer = RunWriter.create(runs_dir, recipe())
    print(f"run: {writer.layout.root}", flush=True)  # noqa: T201
    writer.event("stage", stage="engine", step=0)
    writer.append_heldout(heldout(0, 0.25))
    for number in (1, 2, 3):
        writer.event("stage", stage="rollout", step=number)
        writer.append_trajectory(trajectory(f"s{number:05d}.g00.r0"), step=number)
        writer.append_step(step(number))
    if behaviour == "flood":
        for number in range(2_000):
            line = f"chatter {number} [red] {'x' * 100}"
            print(line, file=sys.stderr if number % 2 else sys.stdout)
    if behaviour == "crash":
        signal.raise_signal(signal.SIGKILL)
    if behaviour == "wait":
        stop.wait()
        writer.close("interrupted", "asked to")
        return 130
    writer.append_heldout(heldout(3, 0.75))
    writer.close("finished")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
