"""What all harnesses that run inside the sandbox have in common, whatever their tables say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lego_harness.adapters.install import CLAUDE_CODE, CODEX, OPENCODE, Harness
from lego_harness.adapters.options import HarnessOptions
from lego_harness.errors import SetupError
from lego_harness.registry import get_adapter
from tests.support.told import SECRET, TASK, told_by

inside = pytest.mark.parametrize("harness", [CLAUDE_CODE, CODEX, OPENCODE], ids=lambda harness: harness.name)


@inside
@pytest.mark.parametrize("subagents", [False, True])
async def test_it_is_told_the_rollout_s_address_and_nothing_of_the_host(
    harness: Harness, subagents: bool, put: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(harness)
    monkeypatch.setenv("OPENAI_API_KEY", "of the host")
    told, exit_ = await told_by(get_adapter(harness.name, HarnessOptions(subagents=subagents)))
    assert f"http://127.0.0.1:{{port}}/rollout/{SECRET}" in told.text()
    assert "policy-1" in told.text()
    assert re.findall(r"\{(?!port)[a-z_]+\}", told.text()) == []
    assert "of the host" not in told.text()
    assert str(Path.home()) not in told.text().replace("/home/agent", "")
    assert exit_.output == "out\nerr\n"


@inside
async def test_the_instruction_comes_on_stdin_as_it_is(harness: Harness, put: Callable[..., Path]) -> None:
    put(harness)
    told, _ = await told_by(get_adapter(harness.name))
    assert told.stdin == TASK.instruction.encode()
    assert "Fix" not in told.text()


@inside
async def test_a_signal_inside_is_the_agent_s_doing(harness: Harness, put: Callable[..., Path]) -> None:
    put(harness)
    for code, is_killed in ((0, False), (1, False), (128, False), (137, True), (143, True)):
        _, exit_ = await told_by(get_adapter(harness.name), code)
        assert (exit_.exit_code, exit_.killed_inside) == (code, is_killed)


@inside
async def test_a_kill_that_may_be_the_machine_s_is_nobody_s_inside(
    harness: Harness, put: Callable[..., Path]
) -> None:
    put(harness)
    for code, is_killed in ((137, False), (143, True)):
        _, exit_ = await told_by(get_adapter(harness.name), code, machine_ran_out_of_memory=True)
        assert (exit_.exit_code, exit_.killed_inside) == (code, is_killed)


@inside
async def test_the_binary_that_is_started_is_the_one_that_was_checked(
    harness: Harness, put: Callable[..., Path]
) -> None:
    binary = put(harness)
    adapter = get_adapter(harness.name)
    await adapter.check()
    told, _ = await told_by(adapter)
    shown = {mount.target: mount.source for mount in adapter.mounts()}
    (target,) = [target for target in shown if told.command[0].startswith(target)]
    assert shown[target] / Path(told.command[0]).relative_to(target) == binary


@inside
async def test_another_version_or_none_is_refused_with_the_command_that_installs_it(
    harness: Harness, put: Callable[..., Path]
) -> None:
    how = rf"-m lego_harness\.adapters\.install {harness.name}"
    with pytest.raises(SetupError, match=how):
        await get_adapter(harness.name).check()
    harness.folder.mkdir(parents=True)
    with pytest.raises(SetupError, match=f"found 0 native binaries.*{how}"):
        await get_adapter(harness.name).check()
    put(harness, "0.0.1")
    with pytest.raises(SetupError, match=rf"0\.0\.1', expected {re.escape(harness.version)}; .*{how}"):
        await get_adapter(harness.name).check()
