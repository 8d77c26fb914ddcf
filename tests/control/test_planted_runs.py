"""`lego demo-runs DIR`, as it is typed, writes runs that `lego diagnose` finds to be what was planted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lego_control.cli import main

pytestmark = pytest.mark.long

PLANTED = {
    "healthy": ("healthy", set[str]()),
    "environment-failure": ("watch", {"ungraded/above"}),
    "collapse": ("collapsed", {"malformed/saturated"}),
    "reward-hack": ("watch", {"heldout/apart"}),
    "misaligned-routes": ("watch", {"top1_agreement/below", "pearson_r/below"}),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example runs of the plain command. Only to be read."""
    folder = tmp_path_factory.mktemp("planted")
    assert main(["demo-runs", str(folder)]) == 0
    return folder


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_run_gets_the_diagnosis_it_was_planted_with(
    runs: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    verdict, planted = PLANTED[name]
    capsys.readouterr()
    assert main(["diagnose", str(runs / name), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    found = {f"{finding['metric']}/{finding['detector']}" for finding in told["findings"]}
    assert told["verdict"] == verdict
    assert planted <= found
    assert bool(planted) == bool(found)


def test_only_the_collapsed_run_fails_a_pipeline(runs: Path) -> None:
    codes = {name: main(["check", str(runs / name)]) for name in PLANTED}
    assert codes == {name: 4 if name == "collapse" else 0 for name in PLANTED}
