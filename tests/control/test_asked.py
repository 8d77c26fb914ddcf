"""What became of a request, as an operator is told: also where the process it was meant for has died."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lego_control.runs import Runs
from lego_control.tools.status import run_status
from lego_core.store import RunWriter
from lego_core.store.mailbox import ACKNOWLEDGED, Asked, Request, post, requests
from tests.support.runs import recipe, step


@pytest.fixture(autouse=True)
def _own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGO_INDEX", str(tmp_path / "index"))


def ask(run: Path, asked: Asked = Asked.STOP, ago_s: float = 0.0) -> Request:
    """A request that somebody left some time ago."""
    request = post(run, asked, who="ann@host", via="cli", why="to see")
    path = run / "control" / f"{request.id}.json"
    earlier = (datetime.now(UTC) - timedelta(seconds=ago_s)).isoformat(timespec="microseconds")
    path.write_text(path.read_text().replace(request.time, earlier))
    return request


def outcomes(run: Path) -> dict[str, str]:
    runs = Runs(run.parent)
    told = {asked.request: asked.outcome for asked in run_status(runs, run.name).asked}
    runs.get(run.name).index.close()
    return told


def test_what_a_dead_process_was_asked_is_expired_for_the_next_one_too(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "runs", recipe()) as writer:
        run = writer.layout.root
        writer.append_step(step(1))
        unheard = ask(run, ago_s=60)
    assert outcomes(run) == {unheard.id: "expired"}
    with RunWriter.resume(run) as writer:
        assert outcomes(run) == {unheard.id: "expired"}
        assert writer.mailbox.new() == ()
        waiting = ask(run)
        assert outcomes(run) == {unheard.id: "expired", waiting.id: "requested"}
        writer.event(ACKNOWLEDGED, request=waiting.id, asked="stop", outcome="stopping", step=1)
        assert outcomes(run)[waiting.id] == "stopping"
    assert len(requests(run)) == 2
