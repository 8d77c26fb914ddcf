"""What computes for an engine does not outlive it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from tests.support.processes import Watch

CHILD = """
import signal
from lego_core.inference.orphan import end_with_parent
end_with_parent()
print("up", flush=True)
signal.pause()
"""
PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


def test_a_child_ends_when_its_parent_is_killed_and_not_before() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        watch = Watch([child])
        os.kill(child, 0)
        parent.send_signal(signal.SIGKILL)
    assert watch.survivors(within_s=60) == []
