"""What OpenCode is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lego_harness.adapters.install import OPENCODE
from lego_harness.adapters.options import HarnessOptions
from lego_harness.registry import get_adapter
from tests.support.told import told_by


@pytest.fixture(autouse=True)
def _installed(put: Callable[..., Path]) -> None:
    put(OPENCODE)


async def config(**options: Any) -> dict[str, Any]:
    told, _ = await told_by(get_adapter("opencode", HarnessOptions(**options)))
    return json.loads(told.files[".config/opencode/opencode.json"])


async def test_the_model_has_the_run_s_window_and_no_other_provider_is_there() -> None:
    told = await config(context_tokens=20_000)
    provider = told["provider"]["lego"]
    assert told["model"] == told["small_model"] == "lego/policy-1"
    assert provider["models"]["policy-1"]["limit"]["context"] == 20_000
    assert 0 < provider["models"]["policy-1"]["limit"]["output"] < 20_000
    assert told["enabled_providers"] == ["lego"]


async def test_sub_agents_are_offered_where_the_run_asks_for_them() -> None:
    assert (await config())["permission"] == {"*": "allow", "task": "deny"}
    assert (await config(subagents=True))["permission"] == {"*": "allow"}


async def test_exit_code_1_says_nothing_since_it_follows_any_error_it_recovered_from() -> None:
    _, exit_ = await told_by(get_adapter("opencode"), exit_code=1)
    assert exit_.exit_code in exit_.ordinary
    _, exit_ = await told_by(get_adapter("opencode"), exit_code=2)
    assert exit_.exit_code not in exit_.ordinary
