"""`lego proxy`: capture in front of a server, as its users meet it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import openai
import pytest

from lego_control.cli import main
from lego_harness.proxy.render import Renderer
from tests.support.checkpoint import write_checkpoint
from tests.support.families import TEMPLATES
from tests.support.pretend_vllm import PretendVllm, generation, served
from tests.support.scripted_engine import say

USER = {"role": "user", "content": "Repair calc.py."}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("model"))


class Running:
    """A `lego proxy` in a process of its own."""

    def __init__(
        self, process: asyncio.subprocess.Process, out: Path, openai_url: str, anthropic_url: str
    ) -> None:
        self.process, self.out = process, out
        self.openai_url, self.anthropic_url = openai_url, anthropic_url

    async def stop(self, number: signal.Signals = signal.SIGINT) -> list[dict[str, Any]]:
        """The sessions it wrote."""
        self.process.send_signal(number)
        assert await self.process.wait() == 0
        return [json.loads(line) for line in self.out.read_text().splitlines()]


@asynccontextmanager
async def proxy(upstream: str, model: Path, out: Path, *more: str) -> AsyncIterator[Running]:
    arguments = ["proxy", "--upstream", upstream, "--model", str(model), "--out", str(out), *more]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lego_control", *arguments), stdout=subprocess.PIPE, env={**os.environ}
    )
    assert process.stdout is not None
    try:
        lines = [(await process.stdout.readline()).decode().strip() for _ in range(2)]
        urls = [line.partition("=")[2] for line in lines]
        assert [line.partition("=")[0] for line in lines] == ["OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"]
        yield Running(process, out, *urls)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def ask(chat: openai.AsyncOpenAI, messages: list[Any]) -> dict[str, Any]:
    """The message that a history is answered with."""
    answer = await chat.chat.completions.create(model="any", messages=messages)
    return answer.choices[0].message.model_dump(exclude_none=True)


async def test_clients_are_captured_and_written_when_it_is_stopped(model: Path, tmp_path: Path) -> None:
    renderer = Renderer.load(model, max_model_len=8192)
    replies = iter([say("", ("bash", {"command": "ls"})), say("Done."), say("Hello."), say("Hi.")])
    pretend = PretendVllm(lambda call: generation(renderer.encode_assistant(next(replies))))
    async with served(pretend) as url, proxy(url, model, tmp_path / "captures.jsonl") as running:
        async with openai.AsyncOpenAI(base_url=running.openai_url, api_key="any") as chat:
            message = await ask(chat, [USER])
            result = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "calc.py"}
            assert (await ask(chat, [USER, message, result]))["content"] == "Done."
        for name in ("other", "third"):
            async with anthropic.AsyncAnthropic(
                base_url=f"{running.anthropic_url}.{name}", api_key="any"
            ) as talk:
                await talk.messages.create(model="any", max_tokens=9, messages=[USER])  # type: ignore[list-item]
        sessions = await running.stop()
    assert [(one["session"], len(one["turns"]), one["stop"]) for one in sessions] == [
        ("session", 2, None),
        ("other", 1, None),
        ("third", 1, None),
    ]
    (branch,) = sessions[0]["branches"]
    sampled = [token for turn in sessions[0]["turns"] for token in turn["sampled_ids"]]
    assert [token for token, is_on in zip(branch["ids"], branch["mask"], strict=True) if is_on] == sampled
    assert pretend.calls[1]["token_ids"] == branch["ids"][: sessions[0]["turns"][1]["num_context"]]
    assert sessions[1]["turns"][0]["asked"]["max_tokens"] == 9
    assert [message["role"] for message in sessions[0]["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_a_switch_of_the_template_is_set_for_every_reply_and_a_misspelt_one_refused(
    tmp_path: Path,
) -> None:
    model = write_checkpoint(tmp_path / "model", template=(TEMPLATES / "qwen3.jinja").read_text())
    renderer = Renderer.load(model, max_model_len=8192)
    pretend = PretendVllm(lambda call: generation(renderer.encode_assistant(say("Done."))))
    off = ("--template-option", "enable_thinking=false")
    async with (
        served(pretend) as url,
        proxy(url, model, tmp_path / "captures.jsonl", *off) as running,
        openai.AsyncOpenAI(base_url=running.openai_url, api_key="any") as chat,
    ):
        await ask(chat, [USER])
        misspelt = [*("proxy", "--upstream", url, "--model", str(model), "--out", str(tmp_path / "x.jsonl"))]
        other = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "lego_control", *misspelt, "--template-option", "enable_thinkin=false"),
            stderr=subprocess.PIPE,
        )
        _, said = await other.communicate()
    assert renderer.vocabulary.decode(pretend.calls[0]["token_ids"]).endswith("<think>\n\n</think>\n\n")
    assert other.returncode == 2
    assert b"does not read the option 'enable_thinkin', expected enable_thinking" in said


async def test_whoever_lacks_the_token_opens_nothing(model: Path, tmp_path: Path) -> None:
    pretend = PretendVllm(lambda call: generation([1]))
    async with served(pretend) as url, proxy(url, model, tmp_path / "captures.jsonl") as running:
        async with aiohttp.ClientSession() as http:
            root, _, token = running.anthropic_url.rpartition("/")
            taken = (
                f"{token}.session"  # the first one's name: whoever came by it would be written in its place
            )
            for secret in ("x", f"{token}x", f"{token}.", f"{token}.a b", f"{token[:-1]}.name", taken):
                async with http.get(f"{root}/{secret}/v1/models") as answer:
                    assert answer.status == 401
            async with http.get(f"{root}/{token}.name/v1/models") as answer:
                assert answer.status == 200
        sessions = await running.stop(signal.SIGTERM)
    assert [one["session"] for one in sessions] == ["session", "name"]


async def test_a_server_that_fails_ends_only_the_session_that_asked(model: Path, tmp_path: Path) -> None:
    pretend = PretendVllm(lambda call: (400, "no such thing"))
    async with served(pretend) as url, proxy(url, model, tmp_path / "captures.jsonl") as running:
        async with openai.AsyncOpenAI(base_url=running.openai_url, api_key="any", max_retries=0) as chat:
            with pytest.raises(openai.BadRequestError):
                await ask(chat, [USER])
        (session,) = await running.stop()
    assert (session["stop"], session["turns"]) == ("failed_engine", [])
    assert "no such thing" in session["error"]


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        ({"--upstream": "http://127.0.0.1:1"}, 2, "no server answers there"),
        ({"--out": "{tmp}/missing/x.jsonl"}, 3, "cannot be written: No such file or directory"),
        ({"--out": "{tmp}"}, 2, "is there already; choose a new name"),
        ({"--template-option": "thinking"}, 2, "'thinking': expected NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_one_line_and_leaves_nothing(
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: dict[str, str],
    code: int,
    told: str,
) -> None:
    given = {"--upstream": "http://127.0.0.1:1", "--model": str(model), "--out": "{tmp}/x.jsonl"} | arguments
    words = [word.format(tmp=tmp_path) for pair in given.items() for word in pair]
    assert main(["proxy", *words]) == code
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
