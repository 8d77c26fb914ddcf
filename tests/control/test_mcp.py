"""The MCP server as clients see it: in process in both protocol eras, as a program, and over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import jsonschema
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

from lego_control.server import build
from lego_control.tools.paging import RESULT_BYTES
from lego_core.config import WatchdogPolicy
from lego_core.health.policy import effective_policy
from lego_core.store import RunStatus, RunWriter
from lego_core.store.mailbox import Asked, requests
from tests.control.operated import operated_run
from tests.support.runs import recipe, step, trajectory

GOLDEN = Path(__file__).parent / "tools_list.json"
READ_ONLY = {
    "runs_list", "run_status", "run_diagnose", "metrics_query", "trajectories_search", "trajectory_read", "compare",
    "pool_query", "rewards_audit", "job_get",
}  # fmt: skip
CONTROL = {
    "run_stop", "run_pause", "run_resume", "run_start", "run_note", "watch_set", "validation_start", "job_cancel",
}  # fmt: skip
ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    operated_run(folder)
    return folder


@pytest.fixture(scope="module")
def run(runs: Path) -> str:
    return next(runs.glob("example-*")).name


@pytest.fixture(autouse=True)
def _own_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGO_INDEX", str(tmp_path / "index"))


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert not answer.is_error, answer.content
    assert json.loads(answer.content[0].text) == answer.structured_content  # type: ignore[union-attr]
    return answer.structured_content  # type: ignore[return-value]


async def failure(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    text = answer.content[0].text  # type: ignore[union-attr]
    return json.loads(text[text.index("{") :])


async def test_the_tools_are_those_of_the_golden_list(runs: Path) -> None:
    """Descriptions and server instructions of more than 2 KB are cut by Claude Code."""
    server = build(runs, allow_control=True)
    async with Client(server, mode="legacy") as client:
        listed = (await client.list_tools()).tools
    told = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
    assert {tool["name"] for tool in told} == READ_ONLY | CONTROL
    assert json.loads(GOLDEN.read_text()) == told
    assert all(len(tool["description"].encode()) < 2048 for tool in told)
    assert len((server.instructions or "").encode()) < 2048
    for tool in told:
        hints = tool["annotations"]
        assert hints["readOnlyHint"] is (tool["name"] in READ_ONLY)
        assert hints["openWorldHint"] is False
        assert tool["outputSchema"]["type"] == "object"
    for name in ("run_stop", "run_pause", "run_resume", "run_start", "watch_set"):
        (tool,) = (tool for tool in told if tool["name"] == name)
        assert tool["_meta"] == {"anthropic/requiresUserInteraction": True}
        assert "answer" not in tool["inputSchema"]["properties"]


async def test_without_leave_to_control_nothing_that_changes_anything_exists(runs: Path, run: str) -> None:
    async with Client(build(runs)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == READ_ONLY
        answer = await client.call_tool("run_stop", {"run": run, "reason": "because"})
        assert answer.is_error


@ERAS
async def test_every_reading_tool_answers_by_its_schema_and_within_the_budget(
    runs: Path, run: str, era: str
) -> None:
    handle = "s00001.g00.r0"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("runs_list", {}),
        ("run_status", {"run": run}),
        ("run_diagnose", {"run": run}),
        ("metrics_query", {"run": run, "keys": ["*"]}),
        ("trajectories_search", {"run": run, "text": "looking"}),
        *(
            ("trajectory_read", {"run": run, "handle": handle, "view": v})
            for v in ("outline", "messages", "tokens", "patch")
        ),
        ("compare", {"a": run, "b": run}),
        ("pool_query", {"run": run}),
        ("rewards_audit", {"run": run}),
    ]
    async with Client(build(runs), mode=era) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        for tool, arguments in calls:
            answer = await call(client, tool, **arguments)
            jsonschema.validate(answer, schemas[tool])  # type: ignore[arg-type]
            assert len(json.dumps(answer).encode()) <= RESULT_BYTES


async def test_the_status_is_what_was_recorded(runs: Path, run: str) -> None:
    async with Client(build(runs)) as client:
        told = await call(client, "run_status", run=run)
    assert (told["state"], told["step"], told["num_steps"]) == ("finished", 6, 12)
    assert told["signals"]["reward_mean"] == pytest.approx(0.3)
    assert (told["bottleneck"], told["checkpoint_step"]) == ("rollout", 6)
    assert told["verdict"] in ("healthy", "watch", "unknown")
    assert told["as_of_step"] == 6


async def test_a_search_gives_handles_counts_and_a_cursor(runs: Path, run: str) -> None:
    async with Client(build(runs)) as client:
        first = await call(
            client, "trajectories_search", run=run, stop_reason="completed", sort="worst", limit=5
        )
        assert first["n_matching"] == 18
        assert first["facets"]["reward"] == {"0": 12, "1": 6}
        second = await call(
            client,
            "trajectories_search",
            run=run,
            stop_reason="completed",
            sort="worst",
            limit=20,
            cursor=first["next_cursor"],
        )
        assert len(first["rows"] + second["rows"]) == 18
        assert second["next_cursor"] is None
        found = await call(client, "trajectories_search", run=run, text=r"step [35]\.", is_regex=True)
        assert {row["step"] for row in found["rows"]} == {3, 5}
        assert "untrusted" in found["rows"][0]["excerpt"]


async def test_pool_and_audit_know_the_tasks(runs: Path, run: str) -> None:
    async with Client(build(runs)) as client:
        pool = await call(client, "pool_query", run=run, sort="task")
        assert [(t["task"], t["solve_rate"], t["audit"]) for t in pool["tasks"]] == [
            ("ops-0000", 0.0, "never_solved"),
            ("ops-0001", 1.0, "always_solved"),
        ]
        audit = await call(client, "rewards_audit", run=run)
        assert {row["kind"] for row in audit["rows"]} == {"degenerate"}
        assert audit["ungraded"] == {"failed_harness": 6}


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [
        ("run_status", {"run": "nope"}, "unknown_run"),
        ("run_status", {"run": "../../etc"}, "unknown_run"),
        ("run_status", {"run": ".."}, "unknown_run"),
        ("trajectory_read", {"run": "RUN", "handle": "s00099.g00.r0"}, "unknown_handle"),
        ("trajectory_read", {"run": "RUN", "handle": "\x1b[31m"}, "unknown_handle"),
        ("trajectory_read", {"run": "RUN", "handle": "s00001.g00.r0", "view": "all"}, "bad_argument"),
        ("trajectories_search", {"run": "RUN", "text": "(", "is_regex": True}, "bad_argument"),
        ("trajectories_search", {"run": "RUN", "cursor": "-1"}, "bad_cursor"),
        ("metrics_query", {"run": "RUN", "keys": ["nothing*"]}, "no_such_metric"),
        ("job_get", {"job": "../x"}, "unknown_job"),
        ("run_status", {"run": 7}, "bad_argument"),
        ("run_status", {}, "bad_argument"),
        ("trajectories_search", {"run": "RUN", "step": 5}, "bad_argument"),
        ("trajectories_search", {"run": "RUN", "limit": -1}, "bad_argument"),
        ("trajectories_search", {"run": "RUN", "first_step": "five"}, "bad_argument"),
    ],
)
async def test_what_is_asked_wrongly_is_answered_with_the_next_step(
    runs: Path, run: str, tool: str, arguments: dict[str, Any], error: str
) -> None:
    async with Client(build(runs)) as client:
        told = await failure(client, tool, **{k: run if v == "RUN" else v for k, v in arguments.items()})
    assert told["error"] == error
    assert told["next"]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("runs_list", {"cursor": "999999999999"}),
        ("run_diagnose", {"run": "RUN", "as_of_step": 10**30}),
        ("metrics_query", {"run": "RUN", "keys": ["*"], "first_step": 10**30, "last_step": 10**40}),
        ("trajectories_search", {"run": "RUN", "first_step": 10**30}),
        ("trajectories_search", {"run": "RUN", "last_step": 10**30, "cursor": "999999999999"}),
        ("trajectory_read", {"run": "RUN", "handle": "s00001.g00.r0", "first": 10**30}),
        ("pool_query", {"run": "RUN", "last_step": 10**30}),
        ("rewards_audit", {"run": "RUN", "first_step": 10**30}),
        ("compare", {"a": "RUN", "b": "RUN", "last_step": 10**30}),
    ],
)
async def test_numbers_beyond_every_run_are_answered_at_once(
    runs: Path, run: str, tool: str, arguments: dict[str, Any]
) -> None:
    async with Client(build(runs)) as client:
        await call(client, tool, **{k: run if v == "RUN" else v for k, v in arguments.items()})


@pytest.mark.parametrize(
    "recipe_path", ["a\0b.toml", "../x.toml", "x" * 290 + ".toml", "loop.toml", "/etc/x.toml"]
)
async def test_a_recipe_that_does_not_lie_there_is_refused(tmp_path: Path, recipe_path: str) -> None:
    (tmp_path / "loop.toml").symlink_to("loop.toml")
    async with Client(build(tmp_path, allow_control=True, recipes=tmp_path)) as client:
        assert (await failure(client, "validation_start", recipe=recipe_path))["error"] == "no_recipe"


async def test_an_argument_that_a_tool_does_not_know_does_nothing(living: RunWriter) -> None:
    result, asked = await stop(living, "legacy", ElicitResult(action="decline"), dry_run="yes")
    assert result.is_error
    assert "dry_run" in json.loads(result.content[0].text)["message"]
    assert (asked, requests(living.layout.root)) == ([], ())


async def test_a_pattern_that_would_take_forever_is_refused(tmp_path: Path) -> None:
    root = operated_run(tmp_path / "runs", steps=1)
    with RunWriter.resume(root) as writer:
        slow = ({"role": "assistant", "content": "a" * 5_000 + "!"},)
        writer.append_trajectory(trajectory("s00002.g00.r0", messages=slow), step=2)
    async with Client(build(root.parent)) as client:
        told = await failure(client, "trajectories_search", run=root.name, text="(a|a)*$", is_regex=True)
    assert told["error"] == "slow_pattern"


async def test_runs_that_cannot_be_read_are_told_and_do_no_harm(tmp_path: Path) -> None:
    good = operated_run(tmp_path / "runs", steps=1)
    for name, text in {
        "half": "{",
        "newer": good.joinpath("run.json").read_text().replace('"format":1', '"format":99'),
    }.items():
        (good.parent / name).mkdir()
        (good.parent / name / "run.json").write_text(text)
    async with Client(build(good.parent)) as client:
        rows = (await call(client, "runs_list"))["runs"]
        assert {row["run"]: row["state"] for row in rows} == {
            good.name: "finished",
            "half": "unreadable",
            "newer": "unreadable",
        }
        assert (await failure(client, "run_status", run="half"))["error"] == "unreadable_run"
        assert (await failure(client, "run_status", run="newer"))["error"] == "other_version"
        await call(client, "run_status", run=good.name)
        good.rename(good.with_name("gone"))
        assert (await failure(client, "run_status", run=good.name))["error"] == "unknown_run"


@pytest.mark.parametrize("train", [None, 7, [], "x", {"steps": "many"}, {"steps": 10**400}, {"steps": -1}])
async def test_a_run_whose_recipe_says_nonsense_is_listed_among_the_others(
    tmp_path: Path, train: object
) -> None:
    good, odd = (operated_run(tmp_path / "runs", name=name, steps=1) for name in ("good", "odd"))
    about = json.loads((odd / "run.json").read_text())
    about["recipe"]["train"] = train
    (odd / "run.json").write_text(json.dumps(about))
    async with Client(build(good.parent)) as client:
        rows = {row["run"]: row for row in (await call(client, "runs_list"))["runs"]}
        assert {name: row["step"] for name, row in rows.items()} == {good.name: 1, odd.name: 1}
        assert rows[odd.name]["num_steps"] == 0
        assert (await call(client, "run_status", run=odd.name))["eta_s"] is None


@pytest.fixture
def living(tmp_path: Path) -> Iterator[RunWriter]:
    """A run that somebody writes."""
    with RunWriter.create(tmp_path / "runs", recipe(run={"name": "alive"})) as writer:
        yield writer


async def stop(
    writer: RunWriter, era: str, answer: ElicitResult | None, tool: str = "run_stop", **more: str
) -> Any:
    asked: list[str] = []

    async def person(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        assert answer is not None
        return answer

    root = writer.layout.root
    server = build(root.parent, allow_control=True)
    async with Client(server, mode=era, elicitation_callback=person if answer else None) as client:
        result = await client.call_tool(tool, {"run": root.name, "reason": "the curve is flat", **more})
    return result, asked


@ERAS
async def test_a_stop_needs_the_name_typed_by_a_person(living: RunWriter, era: str) -> None:
    root = living.layout.root
    result, asked = await stop(living, era, ElicitResult(action="accept", content={"run_name": root.name}))
    assert result.structured_content["state"] == "requested"
    assert f"stop the run {root.name}" in asked[0]
    (request,) = requests(root)
    assert (request.asked, request.via, request.why) == (Asked.STOP, "mcp", "the curve is flat")
    assert request.id == result.structured_content["request_id"]
    assert [heard.id for heard in living.mailbox.new()] == [request.id]


@ERAS
async def test_a_person_may_take_their_time_while_the_run_goes_on(living: RunWriter, era: str) -> None:
    """The question holds numbers of the run, which are others when the answer comes."""
    root = living.layout.root
    living.append_step(step(1))
    living.event("checkpoint", step=1, path="checkpoints")
    asked: list[str] = []

    async def person(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        living.append_step(step(1 + len(asked)))
        return ElicitResult(action="accept", content={"run_name": root.name})

    server = build(root.parent, allow_control=True)
    async with Client(server, mode=era, elicitation_callback=person) as client:
        for number in (1, 2):
            arguments = {"run": root.name, "reason": "the curve is flat"}
            result = await client.call_tool("run_stop", arguments)
            assert result.structured_content["state"] == "requested"  # type: ignore[index] None fails, too
            assert len(asked) == len(requests(root)) == number
    assert [f"step {number} of" in text for number, text in enumerate(asked, 1)] == [True, True]


@ERAS
async def test_a_person_is_told_what_a_stop_at_once_costs(living: RunWriter, era: str) -> None:
    _, asked = await stop(living, era, ElicitResult(action="decline"), mode="now")
    assert "at once, losing its step" in asked[0]


@ERAS
async def test_a_person_is_told_by_which_recipe_and_with_which_changes_a_run_is_started(
    tmp_path: Path, era: str
) -> None:
    (tmp_path / "mine.toml").write_text('[run]\nname = "mine"\n')
    asked: list[str] = []

    async def person(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="decline")

    server = build(tmp_path, allow_control=True, recipes=tmp_path)
    async with Client(server, mode=era, elicitation_callback=person) as client:
        changes = ["train.learning_rate=0.5", "run.name=mine\u202e", "run.name=mine"]
        arguments = {"recipe": "mine.toml", "reason": "to see", "overrides": changes}
        result = await client.call_tool("run_start", arguments)
    assert result.structured_content["state"] == "declined"  # type: ignore[index] None fails, too
    assert "by mine.toml with its changes train.learning_rate=0.5; run.name=mine; run.name=mine." in asked[0]


@ERAS
@pytest.mark.parametrize(
    "answer", [ElicitResult(action="accept", content={"run_name": "another"}), ElicitResult(action="decline")]
)
async def test_another_name_or_a_no_changes_nothing(
    living: RunWriter, era: str, answer: ElicitResult
) -> None:
    result, _ = await stop(living, era, answer)
    assert result.structured_content["state"] == "declined"
    assert requests(living.layout.root) == ()


@ERAS
async def test_a_policy_set_by_a_person_holds_and_is_tried_on_the_run(living: RunWriter, era: str) -> None:
    root = living.layout.root
    for number in range(1, 31):
        living.append_step(step(number, reward_mean=0.6 if number <= 15 else 0.01))
    typed = ElicitResult(action="accept", content={"run_name": root.name})
    result, asked = await stop(living, era, typed, "watch_set", action="stop")
    told = result.structured_content
    assert (told["state"], told["action"]) == ("set", "stop")
    assert 15 < told["would_stop_at"] <= 30
    assert "robust_drop" in " ".join(told["reasons"])
    assert f"have a collapse stop the run {root.name}" in asked[0]
    assert effective_policy(root, WatchdogPolicy()).action == "stop"
    (request,) = requests(root)
    assert (request.asked, request.via, request.why) == (Asked.WATCH, "mcp", "the curve is flat")
    result, _ = await stop(living, era, ElicitResult(action="decline"), "watch_set", action="warn")
    assert (result.structured_content["state"], result.structured_content["action"]) == ("declined", "stop")
    assert requests(root) == (request,)
    result, _ = await stop(living, era, typed, "watch_set", action="kill")
    assert result.is_error
    living.close(RunStatus.FINISHED)
    result, _ = await stop(living, era, typed, "watch_set", action="warn")
    assert result.structured_content["text"].endswith("takes it up when it is resumed")


@ERAS
async def test_a_policy_is_not_set_over_a_recipe_that_cannot_be_read(living: RunWriter, era: str) -> None:
    root = living.layout.root
    living.append_step(step(1))
    about = json.loads((root / "run.json").read_text())
    about["recipe"]["another"] = {"version": 1}
    (root / "run.json").write_text(json.dumps(about))
    typed = ElicitResult(action="accept", content={"run_name": root.name})
    result, _ = await stop(living, era, typed, "watch_set", action="stop")
    assert result.is_error
    assert json.loads(result.content[0].text)["error"] == "unreadable_recipe"
    assert requests(root) == ()


@ERAS
async def test_a_client_that_cannot_ask_a_person_is_refused(living: RunWriter, era: str) -> None:
    result, _ = await stop(living, era, None)
    assert result.is_error
    assert '"no_person"' in result.content[0].text
    assert requests(living.layout.root) == ()


async def test_resources_hold_the_run_its_audit_log_and_its_trajectories(runs: Path, run: str) -> None:
    async with Client(build(runs)) as client:
        templates = {t.uri_template for t in (await client.list_resource_templates()).resource_templates}
        assert "lego://runs/{run}/trajectories/{handle}" in templates
        for part in ("summary", "config", "alerts", "steps/1", "trajectories/s00001.g00.r0"):
            read = await client.read_resource(f"lego://runs/{run}/{part}")
            assert json.loads(read.contents[0].text)  # type: ignore[union-attr]
        with pytest.raises(Exception, match="unknown_run"):
            await client.read_resource("lego://runs/nope/summary")


async def test_the_program_serves_over_stdin_and_stdout(runs: Path, run: str) -> None:
    arguments = ["-m", "lego_control", "mcp", "--runs-dir", str(runs)]
    program = StdioServerParameters(command=sys.executable, args=arguments, env=environment())
    async with Client(stdio_client(program), mode="legacy") as client:
        assert (await call(client, "run_status", run=run))["step"] == 6


def environment() -> dict[str, str]:
    import os

    return {key: os.environ[key] for key in ("PATH", "PYTHONPATH", "HOME", "LEGO_INDEX") if key in os.environ}


@pytest.fixture
async def http(runs: Path) -> AsyncIterator[tuple[str, str]]:
    """Address and token of a server."""
    arguments = ["-m", "lego_control", "mcp", "--runs-dir", str(runs), "--http", "0"]
    program = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stderr=subprocess.PIPE, env=environment()
    )
    assert program.stderr is not None
    url = (await program.stderr.readline()).decode().strip()
    token = (await program.stderr.readline()).decode().strip().removeprefix("Authorization: Bearer ")
    yield url, token
    program.terminate()
    await program.wait()


async def test_over_http_only_the_token_opens_and_no_foreign_page_gets_in(
    http: tuple[str, str], run: str
) -> None:
    url, token = http
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", url)
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(timeout=None) as bare:
        for wrong in ({}, {"Authorization": "Bearer nope"}, {"Authorization": token}):
            assert (await bare.post(url, json=ping, headers=wrong)).status_code == 401
        foreign = {**headers, "Origin": "https://evil.example"}
        assert (await bare.post(url, json=ping, headers=foreign)).status_code == 403
        rebound = {**headers, "Host": "evil.example"}
        assert (await bare.post(url, json=ping, headers=rebound)).status_code == 421
    async with (
        httpx2.AsyncClient(
            headers=headers, timeout=None
        ) as opened,  # by itself it gives up after five seconds
        Client(streamable_http_client(url, http_client=opened), mode="legacy") as client,
    ):
        assert (await call(client, "run_status", run=run))["step"] == 6
