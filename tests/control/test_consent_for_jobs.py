"""When a person is asked about jobs: before what costs much, and before the end of what somebody else waits for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp_types import ElicitResult

from lego_control import jobs as jobs_module
from lego_control.server import build

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
WAITS = [sys.executable, "-c", "import signal; signal.pause()"]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """In place of validations: programs that wait to be told to end."""
    started: list[subprocess.Popen[bytes]] = []

    def spawn(arguments: Sequence[str], out: Path) -> int:
        started.append(subprocess.Popen([*WAITS, *arguments], start_new_session=True))
        return started[-1].pid

    monkeypatch.setattr(jobs_module, "spawn", spawn)
    (tmp_path / "mine.toml").write_text('[run]\nname = "mine"\n')
    yield started
    for program in started:
        program.kill()
        program.wait()


class Person:
    """Who types the same into every question; None cannot be asked."""

    def __init__(self, typed: dict[str, str | int | float | bool | list[str] | None] | None) -> None:
        self.typed = typed
        self.asked: list[str] = []

    async def answer(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult(action="accept", content=self.typed)


async def call(folder: Path, era: str, person: Person, tool: str, **arguments: Any) -> tuple[bool, Any]:
    """Of a server of its own: whether it refused, and what it said."""
    server = build(folder / "runs", allow_control=True, recipes=folder)
    asks = person.answer if person.typed is not None else None
    async with Client(server, mode=era, elicitation_callback=asks) as client:
        result = await client.call_tool(tool, arguments)
    text = result.content[0].text  # type: ignore[union-attr] another kind fails, too
    return bool(result.is_error), json.loads(text[text.index("{") :])


@ERAS
async def test_a_smoke_validation_asks_nobody_and_its_server_may_end_it(
    tmp_path: Path, era: str, programs: list[subprocess.Popen[bytes]]
) -> None:
    async with Client(build(tmp_path / "runs", allow_control=True, recipes=tmp_path), mode=era) as client:
        begun = await client.call_tool("validation_start", {"recipe": "mine.toml"})
        assert begun.structured_content
        job = begun.structured_content["job"]
        ended = await client.call_tool("job_cancel", {"job": job})
        assert not ended.is_error, ended.content
        programs[0].wait()
        told = await client.call_tool("job_get", {"job": job})
        assert told.structured_content
        assert told.structured_content["state"] == "cancelled"
        assert not (await client.call_tool("job_cancel", {"job": job})).is_error  # twice does no harm


@ERAS
@pytest.mark.parametrize("cost", [{"profile": "parity"}, {"profile": "full"}, {"budget": "2h"}])
async def test_a_validation_that_may_hold_the_machine_needs_the_name_typed_by_a_person(
    tmp_path: Path, era: str, cost: dict[str, str], programs: list[subprocess.Popen[bytes]]
) -> None:
    wanted = {"recipe": "mine.toml", **cost}
    refused, told = await call(tmp_path, era, Person(None), "validation_start", **wanted)
    assert (refused, told["error"]) == (True, "no_person")
    refused, told = await call(tmp_path, era, Person({"run_name": "another"}), "validation_start", **wanted)
    assert (refused, told["error"]) == (True, "declined")
    assert programs == []
    person = Person({"run_name": "mine"})
    refused, told = await call(tmp_path, era, person, "validation_start", **wanted)
    assert (refused, told["state"], len(programs)) == (False, "running", 1)
    (question,) = person.asked
    assert f"validate mine.toml by the profile {cost.get('profile', 'smoke')}" in question
    assert f"for {cost.get('budget', '20m')}" in question


@ERAS
async def test_a_job_that_another_server_started_is_ended_by_a_person_only(
    tmp_path: Path, era: str, programs: list[subprocess.Popen[bytes]]
) -> None:
    _, told = await call(tmp_path, era, Person(None), "validation_start", recipe="mine.toml")
    job = told["job"]
    refused, told = await call(tmp_path, era, Person(None), "job_cancel", job=job)
    assert (refused, told["error"]) == (True, "no_person")
    refused, told = await call(tmp_path, era, Person({"job": "another"}), "job_cancel", job=job)
    assert (refused, told["error"]) == (True, "declined")
    assert programs[0].poll() is None
    person = Person({"job": job})
    refused, _ = await call(tmp_path, era, person, "job_cancel", job=job)
    assert not refused
    assert job in person.asked[0]
    programs[0].wait()
    _, told = await call(tmp_path, era, Person(None), "job_get", job=job)
    assert told["state"] == "cancelled"
