"""A spare is handed to whom it was started for, however many rollouts of however many kinds there are."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.base import Mount, Phase, SandboxSpec
from lego_harness.sandbox.docker_spares import Spare, Spares

RUNNING = engine.State(id="x", image="y", pid=1, is_running=True, is_out_of_memory=False)


def _kind(name: str) -> SandboxSpec:
    mount = Mount(source=Path("/packed") / name, target="/opt/env")
    return SandboxSpec(phase=Phase.AGENT, files={}, label="x", mounts=(mount,))


async def test_rollouts_that_change_the_kind_at_the_same_time_get_no_spare_of_each_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: dict[str, SandboxSpec] = {}
    removed: list[str] = []

    async def start(spec: SandboxSpec) -> Spare:
        name = f"spare-{len(started)}"
        started[name] = spec
        return Spare(name=name, state=RUNNING, count=0)

    monkeypatch.setattr(engine, "state", lambda name: RUNNING)
    monkeypatch.setattr(engine, "remove", lambda name, **_: removed.append(name))
    spares, kinds = Spares(2, start), [_kind(name) for name in "abc"]
    await spares.refill(kinds[0])
    await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.gather(*(spares.refill(replace(kind, files={"f": b""})) for kind in kinds[1:]))
        await asyncio.sleep(0)
        for kind in kinds:
            if (spare := await spares.take(kind, 0)) is not None:
                assert started[spare.name] == kind
                removed.append(spare.name)
    await spares.close()
    assert sorted(removed) == sorted(started)
