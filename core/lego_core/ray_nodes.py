"""Whether the nodes of a cluster can do their part: what each has to see, and which versions it has.

    this process ── writes a word into the shared folder ──▶ every node reads it and writes an answer next to it

Invariant: `faults_of_nodes` returns only if every node sees the very same folder. Runs one short task on each
node and changes nothing there.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from lego_core.store.writer import versions
from lego_harness.errors import InfrastructureError
from lego_harness.text import one_line

LOOK_S = 120.0
_WORD = "word"


async def faults_of_nodes(nodes: Collection[str], shared: Path, needed: Sequence[Path]) -> None:
    """Ask each node, by its id in Ray; raises InfrastructureError naming the first that lacks something."""
    import ray

    word, here = secrets.token_hex(8), versions()
    (shared / _WORD).write_text(word)
    addresses = {node["NodeID"]: node["NodeManagerAddress"] for node in ray.nodes()}
    found = await asyncio.gather(*(_ask(node, shared, word, needed, here) for node in sorted(nodes)))
    for node, fault in zip(sorted(nodes), found, strict=True):
        if fault:
            raise InfrastructureError(f"node {addresses.get(node, '?')} ({node[:8]}) of the cluster {fault}")


def fault_here(shared: Path, word: str, needed: Sequence[Path], expected: dict[str, str]) -> str:
    """What this machine lacks and what to do about it; empty if it lacks nothing."""
    try:
        seen = (shared / _WORD).read_text()
        with tempfile.TemporaryFile(dir=shared):
            pass
    except OSError as error:
        seen = f"{error.strerror}"
    if seen != word:
        why = "another folder is there" if len(seen) == len(word) else seen
        return (
            f"does not see the run directory {shared.parent} as this machine does ({why}): put run.runs_dir on a file "
            "system that every node has at the same path and may write"
        )
    for path in needed:
        if not path.exists():
            return f"does not see {path}: put it on a file system that every node has at the same path"
    different = {name: version for name, version in versions().items() if expected.get(name) != version}
    if different or len(versions()) != len(expected):
        return f"has {versions()}, expected this machine's {expected}: install the same there"
    return ""


async def _ask(node: str, *question: Any) -> str:
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    remote: Any = ray.remote
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    task = remote(fault_here).options(num_cpus=0, max_retries=0, scheduling_strategy=there)
    try:
        return await asyncio.wait_for(task.remote(*question), LOOK_S)
    except TimeoutError:
        return f"gave no answer within {LOOK_S:g} s; see its raylet's log"
    except RayError as error:
        said = one_line(str(error), limit=300, keep="end")
        return f"cannot run our code ({said}): install the same version of Lego-RL there"
