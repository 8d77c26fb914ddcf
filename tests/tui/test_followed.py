"""A run is looked at while a thread reads on, and for longer than all of its events are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lego_core.store import RunWriter
from lego_tui.feed import run as run_feed
from lego_tui.feed.run import EventLine, RunFeed
from lego_tui.health import just_before
from lego_tui.tail_lines import news
from tests.support.runs import recipe


class _Meanwhile(dict[str, Any]):
    """Fields of an event, at whose sight another event arrives."""

    def __init__(self, feed: RunFeed, line: bytes) -> None:
        super().__init__(step=1, reason="seen")
        self._feed, self._line = feed, line

    def get(self, key: str, default: Any = None) -> Any:
        self._feed._add_event(self._line)
        return super().get(key, default)


def test_events_may_arrive_while_one_looks_at_them(tmp_path: Path) -> None:
    feed = RunFeed(tmp_path)
    line = b'{"time": 1, "kind": "engine_restarted", "fields": {"step": 1}}'
    feed._events.append(EventLine(kind="warning", fields=_Meanwhile(feed, line)))
    feed._events.append(EventLine(kind="warning", fields={"step": 1}))
    assert just_before(feed, 1)[0] == "warning at step 1: seen"


def test_a_tail_tells_what_happens_however_many_events_there_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_feed, "_MAX_EVENTS", 8)
    writer = RunWriter.create(tmp_path, recipe())
    for number in range(20):
        writer.event("alert", number=number)
    to_come = [("late", "later"), (), ("last",)]

    def wait(_: float) -> None:
        for kind in to_come.pop(0):
            writer.event(kind)
        if not to_come:
            writer.close("finished")

    told = [item.kind for item in news(RunFeed(writer.layout.root), last=None, follow=True, wait=wait)]
    assert [kind for kind in told if kind != "alert"] == ["late", "later", "last", "end"]
