"""What Codex is told."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lego_harness.adapters.install import CODEX
from lego_harness.adapters.options import HarnessOptions
from lego_harness.registry import get_adapter
from tests.support.told import SECRET, told_by


@pytest.fixture(autouse=True)
def _installed(put: Callable[..., Path]) -> None:
    put(CODEX)


async def told(**options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Its configuration, and its catalogue's one model."""
    told, _ = await told_by(get_adapter("codex", HarnessOptions(**options)))
    config = tomllib.loads(told.files[".codex/config.toml"])
    catalogue = told.files[config["model_catalog_json"].removeprefix("/home/agent/")]
    (model,) = json.loads(catalogue)["models"]
    assert told.env.keys() == {config["model_providers"]["lego"]["env_key"], "TERM"}
    return config, model


async def test_the_catalogue_s_model_is_the_one_it_uses_and_has_the_run_s_window() -> None:
    config, model = await told(context_tokens=20_000)
    assert config["model"] == model["slug"] == "policy-1"
    assert model["context_window"] == 20_000


async def test_it_speaks_responses_to_the_rollout_s_address_and_never_asks_twice() -> None:
    config, _ = await told()
    provider = config["model_providers"][config["model_provider"]]
    assert provider["base_url"] == f"http://127.0.0.1:{{port}}/rollout/{SECRET}/v1"
    assert provider["wire_api"] == "responses"
    assert provider["request_max_retries"] == provider["stream_max_retries"] == 0
    assert config["features"]["unbounded_connection_retries"] is False


async def test_sub_agents_are_offered_where_the_run_asks_for_them() -> None:
    for subagents in (False, True):
        config, _ = await told(subagents=subagents)
        assert config["agents"]["enabled"] is subagents


async def test_exit_code_1_is_a_turn_that_failed() -> None:
    _, exit_ = await told_by(get_adapter("codex"), exit_code=1)
    assert exit_.exit_code not in exit_.ordinary
