"""The composite action calls the command as it is, and lets no input be run as code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from lego_control.validate.command import validate

ROOT = Path(__file__).parents[3]


@pytest.fixture
def action() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "action.yml").read_text())


def test_every_option_the_action_gives_is_one_of_the_command(action: dict[str, Any]) -> None:
    script = action["runs"]["steps"][-1]["run"]
    given = {word for word in script.split() if word.startswith("--")}
    known = {option for p in validate.params if isinstance(p, click.Option) for option in p.opts}
    assert given <= known
    assert "--summary" in given


def test_inputs_reach_the_shell_as_variables_only(action: dict[str, Any]) -> None:
    assert all("${{" not in step["run"] for step in action["runs"]["steps"])


def test_the_example_workflow_runs_the_smoke_profile_of_a_recipe_that_exists() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "validate.yml").read_text())
    steps = workflow["jobs"]["smoke"]["steps"]
    (ours,) = [step["with"] for step in steps if step["uses"] == "./"]
    assert ours["profile"] == "smoke"
    assert (ROOT / ours["recipe"]).is_file()
