"""Sandboxes can be made here, in each phase."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground
from lego_harness.errors import SetupError
from lego_harness.sandbox.base import Phase, SandboxSpec

LABEL = "validate"


async def run(ground: Ground) -> str:
    backend = ground.backend
    try:
        await backend.check()
        for phase in Phase:
            spec = SandboxSpec(phase=phase, files={"a/b.txt": b"seen"}, label=LABEL)
            async with backend.open(spec) as sandbox:
                done = await sandbox.exec(["cat", "a/b.txt"], timeout_s=30)
                if done.stdout != "seen":
                    raise Broken(
                        f"phase {phase.value}: a file put into the sandbox is not seen inside",
                        "look at the backend's storage, or choose another sandbox.backend",
                    )
    except SetupError as error:
        raise Broken(str(error), "see what it asks for, or choose another sandbox.backend") from error
    limits = f"; cannot hold: {', '.join(backend.cannot_hold)}" if backend.cannot_hold else ""
    return f"{backend.name}, {len(Phase)} phases{limits}"
