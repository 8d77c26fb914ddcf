"""Any program as a harness: what it is told, where it runs, what is refused beforehand."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lego_harness.adapters.base import HarnessExit
from lego_harness.adapters.command import CommandAdapter
from lego_harness.adapters.options import CommandConfig, HarnessOptions
from lego_harness.errors import SetupError, UsageError
from lego_harness.registry import get_adapter
from lego_harness.sandbox.base import Phase, Sandbox, SandboxSpec
from lego_harness.sandbox.choose import choose_backend
from lego_harness.types import StopReason
from tests.support.real_rollout import Worker
from tests.support.sandboxes import Sleeper, unique_label
from tests.support.scripted_engine import say
from tests.support.told import ENDPOINT, TASK, Told

SHOW = (
    "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ), os.getcwd(), sys.stdin.read()]))"
)
WORDS = ["{url}", "{socket}", "{path}", "{model}", "{context_tokens}", "{instruction_file}"]
AGENT = """
import json, os, subprocess, sys, urllib.request
url, prefix = sys.argv[1], json.loads(sys.argv[2])
messages = [{"role": "user", "content": sys.stdin.read()}]
tool = {"type": "function", "function": {"name": "run", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}}}}
while True:
    body = json.dumps({"model": os.environ["MODEL"], "messages": messages, "tools": [tool]}).encode()
    request = urllib.request.Request(url + "/v1/chat/completions", body, {"content-type": "application/json"})
    message = json.load(urllib.request.urlopen(request))["choices"][0]["message"]
    messages.append(message)
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        done = subprocess.run([*prefix, "sh", "-c", command], capture_output=True, text=True)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": done.stdout + done.stderr})
"""


def command(*argv: str, **table: Any) -> CommandAdapter:
    adapter = get_adapter("command", HarnessOptions(command=CommandConfig(argv=argv, **table)))
    assert isinstance(adapter, CommandAdapter)
    return adapter


@asynccontextmanager
async def sandbox_of(adapter: CommandAdapter, socket: Path | None = None) -> AsyncIterator[Sandbox]:
    spec = SandboxSpec(
        phase=Phase.AGENT,
        files={},
        label=unique_label(),
        mounts=adapter.mounts(),
        limits=adapter.limits,
        proxy_socket=socket,
    )
    async with choose_backend("bubblewrap").open(spec) as sandbox:
        yield sandbox


async def shown_by(adapter: CommandAdapter, sandbox: Any) -> tuple[list[str], dict[str, str], str, str]:
    exit_ = await adapter.run(TASK, sandbox, ENDPOINT, timeout_s=20)
    assert exit_.exit_code == 0, exit_.output
    argv, env, folder, stdin = json.loads(exit_.output)
    return argv, env, folder, stdin


async def test_in_the_sandbox_a_program_is_told_all_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of the host")
    adapter = command("python3", "-c", SHOW, *WORDS, env={"URL": "{url}/v1"})
    async with sandbox_of(adapter) as sandbox:
        (url, *rest), env, folder, stdin = await shown_by(adapter, sandbox)
        file = await sandbox.exec(["cat", rest[-1]], timeout_s=20)
    assert re.fullmatch(rf"http://127\.0\.0\.1:\d+{ENDPOINT.path}", url)
    assert rest[:-1] == ["/run/lego/proxy.sock", ENDPOINT.path, "policy-1", "131072"]
    assert (stdin, file.stdout) == (TASK.instruction, TASK.instruction)
    assert env["URL"] == f"{url}/v1"
    assert folder == "/workspace"
    assert "of the host" not in env.values()


async def test_on_the_host_it_is_told_how_to_enter_the_sandbox_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of the host")
    adapter = command(sys.executable, "-c", SHOW, *WORDS, "{sandbox}", place="host", env={"URL": "{url}/v1"})
    argv, env, folder, stdin = await shown_by(adapter, Told())
    assert argv[:5] == [ENDPOINT.host_url, str(ENDPOINT.socket), ENDPOINT.path, "policy-1", "131072"]
    assert json.loads(argv[6]) == ["enter", "sandbox 1"]
    assert stdin == TASK.instruction
    assert env.keys() <= {"PATH", "HOME", "TMPDIR", "URL", "LC_CTYPE"}
    assert env["HOME"] == env["TMPDIR"] == folder == str(Path(argv[5]).parent)
    assert not Path(folder).exists()
    assert adapter.mounts() == ()


@pytest.mark.parametrize("place", ["sandbox", "host"])
async def test_a_program_that_does_not_end_is_ended_with_what_it_started(place: str) -> None:
    sleeper = Sleeper()
    adapter = command("sh", "-c", f"{sleeper.command} & wait", place=place)
    async with sandbox_of(adapter) as sandbox:
        exit_ = await adapter.run(TASK, sandbox, ENDPOINT, timeout_s=1)
        assert exit_.timed_out
        assert sleeper.survivors() == []
        running = asyncio.create_task(adapter.run(TASK, sandbox, ENDPOINT, timeout_s=1000))
        await sleeper.started()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert sleeper.survivors() == []


@pytest.mark.parametrize("place", ["sandbox", "host"])
async def test_its_exit_code_means_what_the_table_says(place: str) -> None:
    adapter = command("sh", "-c", "echo all is well; exit 3", place=place, exit_codes=(0, 3))
    async with sandbox_of(adapter) as sandbox:
        exit_ = await adapter.run(TASK, sandbox, ENDPOINT, timeout_s=20)
    assert exit_ == HarnessExit(exit_code=3, output="all is well\n", ordinary=frozenset({0, 3}))


async def test_a_folder_of_the_host_is_shown_in_the_sandbox(tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text("print('here')")
    tmp_path.chmod(0o755)
    adapter = command("python3", "/opt/agent/agent.py", mounts={"/opt/agent": str(tmp_path)}, memory_mb=512)
    assert adapter.limits.memory_mb == 512
    await adapter.check()
    async with sandbox_of(adapter) as sandbox:
        assert (await adapter.run(TASK, sandbox, ENDPOINT, timeout_s=20)).output == "here\n"


@pytest.mark.parametrize("place", ["sandbox", "host"])
async def test_a_program_of_twenty_lines_repairs_a_task_for_a_reward_of_1(place: str, tmp_path: Path) -> None:
    own_prefix = "[]" if place == "sandbox" else "{sandbox}"
    python = "python3" if place == "sandbox" else sys.executable
    table = CommandConfig(
        argv=(python, "-c", AGENT, "{url}", own_prefix), env={"MODEL": "{model}"}, place=place
    )
    worker = Worker(tmp_path, "command", "bubblewrap", HarnessOptions(command=table))
    await worker.proxy.start()
    repair = f"sed -i 's@ [-+*/] @ {worker.synth.wanted.operator} @' {worker.synth.file}"
    steps = [say("", ("run", {"command": f"cat {worker.synth.file}"})), say("", ("run", {"command": repair}))]
    try:
        trajectory = await worker.run([*steps, say("Done.")])
    finally:
        await worker.proxy.close()
    assert (trajectory.stop_reason, trajectory.error) == (StopReason.COMPLETED, "")
    assert trajectory.grade is not None
    assert trajectory.grade.reward == 1.0, trajectory.grade.detail
    assert worker.synth.source in [m["content"] for m in trajectory.messages]
    (branch,) = trajectory.branches
    assert int(branch.mask.sum()) == trajectory.num_sampled


@pytest.mark.parametrize(
    ("table", "said"),
    [
        pytest.param({"argv": []}, "at least 1 item", id="nothing to run"),
        pytest.param({"argv": [""]}, "at least 1 character", id="a program without a name"),
        pytest.param({"argv": "agent --url {url}"}, "valid tuple", id="a shell line"),
        pytest.param({"argv": ["a"], "cwd": "/"}, "Extra inputs are not permitted", id="an unknown key"),
        pytest.param({"argv": ["a"], "place": "docker"}, "'sandbox' or 'host'", id="another place"),
        pytest.param({"argv": ["a", "{sandbox}"]}, 'with place = "host"', id="into the sandbox from inside"),
        pytest.param(
            {"argv": ["a"], "place": "host", "mounts": {"/opt": "/opt"}},
            "expected none",
            id="host with mounts",
        ),
    ],
)
def test_a_table_that_cannot_work_is_refused(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        CommandConfig.model_validate(table)


@pytest.mark.parametrize(
    ("adapter", "said"),
    [
        (command("agent", mounts={"/opt/agent": "/nowhere/agent"}), "mounts name /nowhere/agent"),
        (
            command("no-such-agent", place="host"),
            "argv names no-such-agent, which is not on this host's PATH",
        ),
    ],
    ids=["mount", "program"],
)
async def test_what_is_not_on_this_host_is_named_before_anything_starts(
    adapter: CommandAdapter, said: str
) -> None:
    with pytest.raises(SetupError, match=said):
        await adapter.check()


def test_without_a_table_it_is_refused() -> None:
    with pytest.raises(UsageError, match=r"needs to be told what to run: a table \[harness.command\]"):
        get_adapter("command")
