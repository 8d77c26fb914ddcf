"""Nothing inside a sandbox reaches a network, in any phase; a listener of ours is not reached either."""

from __future__ import annotations

import socket

from lego_control.validate.base import Broken, Ground
from lego_control.validate.checks.sandbox import LABEL
from lego_harness.sandbox.base import Phase, SandboxSpec

PROBE = """
import socket, sys
for host, port in (("127.0.0.1", int(sys.argv[1])), ("1.1.1.1", 53), ("8.8.8.8", 53)):
    try:
        socket.create_connection((host, port), 2).close()
        print("reached", host)
    except OSError:
        pass
print("done")
"""


async def run(ground: Ground) -> str:
    with socket.create_server(("127.0.0.1", 0)) as ours:
        port = str(ours.getsockname()[1])
        for phase in Phase:
            async with ground.backend.open(SandboxSpec(phase=phase, files={}, label=LABEL)) as sandbox:
                done = await sandbox.exec(["python3", "-c", PROBE, port], timeout_s=30)
            said = done.stdout.split("\n")
            reached = [line.partition(" ")[2] for line in said if line.startswith("reached ")]
            if reached:
                raise Broken(
                    f"phase {phase.value}: a sandbox reached {', '.join(reached)}",
                    "do not train here: repair the backend's isolation, or choose another one",
                )
            if "done" not in said:
                raise Broken(
                    f"phase {phase.value}: the probe did not end (exit {done.exit_code})",
                    "sandboxes need a python3: see the backend's image",
                )
    return "no network in any phase, neither loopback nor beyond"
