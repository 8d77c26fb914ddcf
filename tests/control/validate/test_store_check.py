"""The check that writes a run leaves nothing of its own, and everything of others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from lego_control.validate.base import Ground
from lego_control.validate.checks import store
from lego_core.store import RunReader, RunStatus
from lego_harness.sandbox.base import SandboxBackend
from tests.support.runs import recipe


def ground(tmp_path: Path) -> Ground:
    async def proofs(_: Ground) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {}

    return Ground(
        recipe=recipe(run={"name": "mine", "runs_dir": str(tmp_path / "runs")}),
        profile="smoke",
        scratch=tmp_path,
        backend=cast(SandboxBackend, None),
        proofs=proofs,
    )


def test_it_leaves_nothing(tmp_path: Path) -> None:
    assert store.run(ground(tmp_path)).startswith("written and read back")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_begins_meanwhile_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Meanwhile(RunReader):
        def status(self) -> RunStatus:
            (tmp_path / "runs" / "another").mkdir(exist_ok=True)
            return super().status()

    monkeypatch.setattr(store, "RunReader", Meanwhile)
    store.run(ground(tmp_path))
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["another"]
