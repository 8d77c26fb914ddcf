"""Whether an agent has made its own sandbox useless: no room to write, nothing that can be started.

    its sandbox fails ─▶ a fresh one serves ─▶ its sandbox fails again

Invariant: said only where the machine serves between two failures, so that no want of disk or processes that others
share is ever laid at the agent's door. What ends with the processes of the agent leaves no trace here: a fork bomb of
bubblewrap's, a program that was talked into giving up.
"""

from __future__ import annotations

from dataclasses import replace

from lego_harness.sandbox.base import Phase, Sandbox, SandboxBackend, SandboxSpec

_PROBE_S = 60.0
_PROBE = """for place in "$HOME" /tmp .; do
  probe=$(mktemp "$place/.probe-XXXXXX") && head -c 65536 /dev/zero > "$probe" || exit 1
  rm -f "$probe"
done"""


async def is_spoilt(sandbox: Sandbox, backend: SandboxBackend, spec: SandboxSpec) -> bool:
    """Whether `sandbox`, made of `spec`, no longer serves where a fresh one does. Raises as both of them do."""
    if await _serves(sandbox):
        return False
    fresh = replace(spec, phase=Phase.GRADE, files={}, proxy_socket=None, network=False)
    async with backend.open(fresh) as other:
        if not await _serves(other):
            return False
    return not await _serves(sandbox)


async def _serves(sandbox: Sandbox) -> bool:
    """One that gives no answer in time may be slow, and is no proof."""
    ended = await sandbox.exec(["sh", "-c", _PROBE], timeout_s=_PROBE_S)
    return ended.timed_out or ended.exit_code == 0
