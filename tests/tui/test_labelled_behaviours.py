"""What the metrics read off real harnesses' trajectories is what a person read who had not seen the code.

The trajectories and the person's labels lie in `tests/data/behaviours`; its README says how both were made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from lego_tui.behaviours.table9 import behaviour_of
from tests.support.behaved.sheet import DATA, trajectories

LABELS: dict[str, dict[str, Any]] = json.loads((DATA / "labels.json").read_text(encoding="utf-8"))
FIELDS = (
    "num_calls", "num_malformed", "num_failed", "reads_back", "runs_tests", "files_explored", "finishes", "reproduces",
)  # fmt: skip


def disagreements() -> Iterator[tuple[str, str, Any, Any]]:
    """(trajectory, field, what the metrics say, what the person said)."""
    for trajectory in trajectories():
        is_completed = trajectory["stop_reason"] == "completed"
        seen = behaviour_of(trajectory["messages"], harness=trajectory["harness"], is_completed=is_completed)
        said = LABELS[trajectory["id"]]
        for field in FIELDS:
            if getattr(seen, field) != said[field]:
                yield trajectory["id"], field, getattr(seen, field), said[field]


def test_the_metrics_agree_with_a_reader_who_had_not_seen_the_code() -> None:
    explained = {(name, field) for name, said in LABELS.items() for field in said.get("explained", {})}
    found = {(name, field): (metric, label) for name, field, metric, label in disagreements()}
    assert {key: value for key, value in found.items() if key not in explained} == {}
    assert explained <= found.keys()  # what is explained away is still there to be explained
    assert len(explained) <= 0.03 * len(LABELS) * len(FIELDS)


def test_the_labelled_trajectories_are_many_and_of_several_harnesses() -> None:
    harnesses = [trajectory["harness"] for trajectory in trajectories()]
    assert len(harnesses) >= 60
    assert len(set(harnesses)) >= 4
