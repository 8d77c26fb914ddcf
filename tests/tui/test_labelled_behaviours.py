"""What the metrics read off real harnesses' trajectories is what persons read who had not seen the code.

Trajectories and labels lie in `tests/data/behaviours`, two sets of them; its README says how they were made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lego_tui.behaviours.table9 import behaviour_of
from tests.support.behaved.sheet import DATA, trajectories

SETS = (DATA, DATA / "second")
FIELDS = (
    "num_calls", "num_malformed", "num_failed", "reads_back", "runs_tests", "files_explored", "finishes", "reproduces",
)  # fmt: skip


def labels(recorded: Path) -> dict[str, dict[str, Any]]:
    return json.loads((recorded / "labels.json").read_text(encoding="utf-8"))


def disagreements(recorded: Path) -> Iterator[tuple[str, str, Any, Any]]:
    """(trajectory, field, what the metrics say, what the reader said)."""
    every = labels(recorded)
    for trajectory in trajectories(recorded):
        is_completed = trajectory["stop_reason"] == "completed"
        seen = behaviour_of(trajectory["messages"], harness=trajectory["harness"], is_completed=is_completed)
        said = every[trajectory["id"]]
        for field in FIELDS:
            if getattr(seen, field) != said[field]:
                yield trajectory["id"], field, getattr(seen, field), said[field]


@pytest.mark.parametrize("recorded", SETS, ids=("first", "second"))
def test_the_metrics_agree_with_readers_who_had_not_seen_the_code(recorded: Path) -> None:
    every = labels(recorded)
    explained = {(name, field) for name, said in every.items() for field in said.get("explained", {})}
    found = {(name, field): (metric, label) for name, field, metric, label in disagreements(recorded)}
    assert {key: value for key, value in found.items() if key not in explained} == {}
    assert explained <= found.keys()  # what is explained away is still there to be explained
    assert len(explained) <= 0.03 * len(every) * len(FIELDS)


@pytest.mark.parametrize("recorded", SETS, ids=("first", "second"))
def test_the_labelled_trajectories_are_many_and_of_several_harnesses(recorded: Path) -> None:
    harnesses = [trajectory["harness"] for trajectory in trajectories(recorded)]
    assert len(harnesses) >= 60
    assert len(set(harnesses)) >= 4
    assert labels(recorded).keys() == {trajectory["id"] for trajectory in trajectories(recorded)}
