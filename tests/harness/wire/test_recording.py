"""The recording format: references, and what a broken or hostile file is told."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.errors import UsageError
from lego_harness.wire.recording import Call, as_lines, read_recording

MESSAGE = {"role": "user", "content": "x" * 300}


def line(n: int, body: Any, **fields: Any) -> dict[str, Any]:
    reply = {"status": 200, "json": {}}
    return {
        "n": n,
        "method": "POST",
        "path": "/v1/chat/completions",
        "headers": [],
        "body": body,
        "reply": reply,
    } | fields


def write(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / "recording.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    return path


def test_references_stand_for_what_an_earlier_request_said(tmp_path: Path) -> None:
    tools = [{"name": "bash"}, {"name": "edit"}]
    path = write(
        tmp_path,
        line(1, {"messages": [MESSAGE], "tools": tools}),
        line(2, {"messages": [{"$ref": [1, 0]}, {"role": "user", "content": "y"}], "tools": {"$ref": [1]}}),
        line(5, {"messages": {"$ref": [2]}, "tools": [{"$ref": [2, 1]}]}),
    )
    bodies = [call.body for call in read_recording(path)]
    assert bodies[1] == {"messages": [MESSAGE, {"role": "user", "content": "y"}], "tools": tools}
    assert bodies[2] == {"messages": bodies[1]["messages"], "tools": tools[1:]}


def test_a_schema_that_has_references_of_its_own_is_left_alone(tmp_path: Path) -> None:
    body = {"tools": [{"parameters": {"$ref": "#/defs/x"}}, {"$ref": "#/defs/y"}], "x": {"$ref": "#"}}
    assert read_recording(write(tmp_path, line(1, body)))[0].body == body


def test_a_request_that_no_script_answered_has_no_class(tmp_path: Path) -> None:
    (call,) = read_recording(write(tmp_path, line(1, None, **{"class": None, "step": None})))
    assert (call.label, call.step) == (None, None)


def test_a_compressed_recording_is_read(tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(line(1, {"messages": []})).encode()))
    assert read_recording(path)[0].n == 1


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([line(1, {"messages": {"$ref": [1]}})], "line 1: messages refers to [1]"),
        ([line(1, {}), line(2, {"messages": {"$ref": [1]}})], "no earlier request 1 has messages"),
        ([line(1, {"messages": [1]}), line(2, {"messages": [{"$ref": [1, 1]}]})], "has no item 1"),
        ([line(1, {"messages": [1]}), line(2, {"messages": [{"$ref": [1, -1]}]})], "has no item -1"),
        ([line(1, {"x": 1}), line(2, {"x": {"$ref": [1, 0]}})], "has no item 0"),
        ([line(1, {"x": {"$ref": []}})], "expected [n] or [n, i]"),
        ([line(1, {"x": {"$ref": [1, 2, 3]}})], "expected [n] or [n, i]"),
        ([line(1, {"x": {"$ref": [True]}})], "expected [n] or [n, i]"),
        ([line(2, {}), line(2, {})], "n is 2, expected more than 2"),
        ([line(0, {})], "n: Input should be greater than or equal to 1"),
        ([line(1, {}, path="nowhere")], "path: "),
        ([line(1, {}, path="/v1 HTTP/1.1")], "path: "),
        ([line(1, {}, method="post")], "method: "),
        ([line(1, {}, headers=[["x"]])], "headers.0.1: Field required"),
        ([line(1, {}, headers=[["x", "a\r\nb: c"]])], "headers.0.1: "),
        ([line(1, {}, headers=[["a b", "c"]])], "headers.0.0: "),
        ([line(1, {}, reply={"status": 1000})], "reply.status: "),
        ([line(1, {}, reply={"json": {}})], "reply.status: "),
        ([line(1, {}, reply={"status": 200, "sse": 5})], "reply.sse: "),
        ([], "no recorded request in it"),
    ],
)
def test_a_broken_line_is_named_with_what_is_wrong(
    tmp_path: Path, lines: list[dict[str, Any]], told: str
) -> None:
    with pytest.raises(UsageError) as error:
        read_recording(write(tmp_path, *lines))
    assert told in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b"1",
        b'{"n": NaN}',
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps(line(1, None))[:-1].encode() + b', "body": ' + b'{"a":' * 200 + b"1" + b"}" * 201,
    ],
)
def test_a_file_that_is_no_recording_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "recording.jsonl"
    path.write_bytes(text)
    with pytest.raises(UsageError):
        read_recording(path)


@pytest.mark.parametrize("name", ["missing.jsonl", ".", "broken.jsonl.gz"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "broken.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(UsageError, match="cannot be read"):
        read_recording(tmp_path / name)


CONTENTS = st.sampled_from(["short", "a" * 300, "b" * 300])
MESSAGES = st.lists(st.builds(dict, role=st.just("user"), content=CONTENTS), max_size=4)
BODIES = st.none() | st.fixed_dictionaries(
    {"messages": MESSAGES}, optional={"tools": MESSAGES, "system": CONTENTS, "stream": st.booleans()}
)


@given(st.lists(BODIES, min_size=1, max_size=6))
def test_what_is_written_reads_as_it_was(tmp_path_factory: pytest.TempPathFactory, bodies: list[Any]) -> None:
    calls = [Call.model_validate(line(n, body)) for n, body in enumerate(bodies, 1)]
    path = tmp_path_factory.mktemp("recording") / "recording.jsonl"
    path.write_text(as_lines(calls), encoding="utf-8")
    assert read_recording(path) == calls


def test_what_is_repeated_is_written_once() -> None:
    calls = [Call.model_validate(line(n, {"messages": [MESSAGE] * n})) for n in (1, 2)]
    assert as_lines(calls).count(MESSAGE["content"]) == 1
