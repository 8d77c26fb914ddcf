"""A run goes on with another learning rate: a person is told what changes, and whoever reads it sees what holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import ElicitResult

from lego_control.runs import Runs
from lego_control.server import build
from lego_control.tools.compare import compare
from lego_core.store import RunWriter
from lego_core.store.mailbox import requests
from tests.control.operated import operated_run
from tests.support.runs import recipe

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
FASTER = "train.learning_rate=2e-6"


@pytest.fixture(autouse=True)
def _own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGO_INDEX", str(tmp_path / "index"))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """What a core was started with."""
    told: list[Sequence[str]] = []

    def start(arguments: Sequence[str], **_: str) -> Path:
        told.append(arguments)
        return Path(arguments[1])

    monkeypatch.setattr("lego_control.tools.act.start", start)
    return told


async def resume(root: Path, era: str, *overrides: str) -> tuple[Any, list[str]]:
    """The answer, and what the person, who types the run's name, was asked."""
    asked: list[str] = []

    async def person(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept", content={"run_name": root.name})

    async with Client(
        build(root.parent, allow_control=True), mode=era, elicitation_callback=person
    ) as client:
        arguments = {"run": root.name, "reason": "it learns too slowly", "overrides": list(overrides)}
        return await client.call_tool("run_resume", arguments), asked


def error(result: Any) -> str:
    text = result.content[0].text
    return json.loads(text[text.index("{") :])["error"]


@ERAS
async def test_a_person_is_told_what_a_resume_changes(
    tmp_path: Path, started: list[Sequence[str]], era: str
) -> None:
    root = operated_run(tmp_path / "runs", steps=1)
    result, asked = await resume(root, era, FASTER, "train.kl_coef=0")
    assert result.structured_content["state"] == "started"
    assert f"resume the run {root.name} with its changes {FASTER}; train.kl_coef=0:" in asked[0]
    assert started == [["--resume", str(root), "--set", FASTER, "--set", "train.kl_coef=0"]]


@ERAS
@pytest.mark.parametrize("overrides", [["train.steps=9"], [FASTER, "model.path=x"], ["train.grad_clip=0"]])
async def test_a_change_that_may_not_be_is_refused_before_anybody_is_asked(
    tmp_path: Path, started: list[Sequence[str]], era: str, overrides: list[str]
) -> None:
    result, asked = await resume(operated_run(tmp_path / "runs", steps=1), era, *overrides)
    assert result.is_error
    assert error(result) == "usage"
    assert (asked, started) == ([], [])


@ERAS
async def test_a_run_that_goes_on_keeps_its_recipe(
    tmp_path: Path, started: list[Sequence[str]], era: str
) -> None:
    with RunWriter.create(tmp_path / "runs", recipe()) as living:
        result, asked = await resume(living.layout.root, era, FASTER)
        assert error(result) == "running"
        assert (asked, started, requests(living.layout.root)) == ([], [], ())


def test_runs_that_went_on_differently_differ(tmp_path: Path) -> None:
    one, other = (operated_run(tmp_path / "runs", name=name, steps=1) for name in ("one", "other"))
    RunWriter.resume(other, {"train.learning_rate": 2e-6}).close("interrupted")
    told = compare(Runs(one.parent), one.name, other.name).config
    assert told["train.learning_rate"] == ["1e-06", "2e-06"]
