"""What a resume changes of its run's recipe is written down and holds from then on; the rest stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lego_core.changes import MAY_CHANGE, change
from lego_core.store import RunReader, RunWriter
from lego_harness.errors import UsageError
from tests.support.runs import recipe


def resumed(root: Path, *overrides: str) -> RunReader:
    """The run once it has gone on with these changes, and ended."""
    _, changes = change(RunReader(root).recipe(), overrides)
    RunWriter.resume(root, changes).close("interrupted")
    return RunReader(root)


def test_changes_of_resumes_add_up_and_what_the_run_was_started_with_stays(tmp_path: Path) -> None:
    started = recipe(train={"steps": 3, "learning_rate": 1e-6})
    RunWriter.create(tmp_path, started).close("interrupted")
    (root,) = tmp_path.iterdir()
    before = (root / "run.json").read_bytes()
    resumed(root, "train.learning_rate=2", "train.kl_coef=0.5")
    assert resumed(root).recipe().train.learning_rate == 2.0
    train = resumed(root, "train.learning_rate=1e-7").recipe().train
    assert (train.learning_rate, train.kl_coef, train.steps) == (1e-7, 0.5, 3)
    assert (root / "run.json").read_bytes() == before
    told = [e.fields.get("changed") for e in RunReader(root).events() if e.kind == "started"]
    assert told == [
        None,
        {"train.learning_rate": 2.0, "train.kl_coef": 0.5},
        None,
        {"train.learning_rate": 1e-7},
    ]


@pytest.mark.parametrize(
    "key", ["train.steps", "rollout.group_size", "run.seed", "watchdog.action", "train.x"]
)
def test_what_data_and_rollouts_depend_on_does_not_change(key: str) -> None:
    with pytest.raises(UsageError, match=f"--set {key}: a resumed run keeps the recipe"):
        change(recipe(), ["train.learning_rate=1", f"{key}=1"])


@pytest.mark.parametrize("value", ["-1", "nan", "much"])
@pytest.mark.parametrize("key", MAY_CHANGE)
def test_a_value_that_no_recipe_may_have_is_refused(key: str, value: str) -> None:
    with pytest.raises(UsageError, match=key):
        change(recipe(), [f"{key}={value}"])


@pytest.mark.parametrize(
    "found",
    [
        "train.learning_rate",
        ["train.learning_rate"],
        {"train.learning_rate": "2"},
        {"train.learning_rate": True},
        {"train.steps": 1},
        {"model.path": "elsewhere"},
    ],
)
def test_whatever_else_stands_in_an_event_changes_nothing(tmp_path: Path, found: Any) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.event("started", resumed=True, changed=found)
        writer.event("note", changed={"train.learning_rate": 2.0})
    assert RunReader(writer.layout.root).recipe() == recipe()
