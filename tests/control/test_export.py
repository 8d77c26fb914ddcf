"""Exports say what the run says, in the other format's own terms, and no secret leaves with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import atif
import pytest

from lego_control.cli import main
from lego_control.redact import PATTERNS, redact_text
from lego_core.store import RunReader, RunWriter
from tests.control.operated import operated_run
from tests.support.runs import trajectory

SECRETS = {
    "private-key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "anthropic-key": "sk-ant-" + "a1" * 20,
    "openai-key": "sk-proj-" + "b2" * 20,
    "github-token": "ghp_" + "c3" * 18,
    "gitlab-token": "glpat-" + "d4" * 10,
    "huggingface-token": "hf_" + "e5" * 17,
    "aws-key": "AKIA" + "F6" * 8,
    "google-key": "AIza" + "g" * 35,
    "slack-token": "xoxb-" + "1" * 12,
    "npm-token": "npm_" + "h7" * 18,
    "pypi-token": "pypi-" + "i8" * 30,
    "stripe-key": "sk_live_" + "j9" * 10,
    "json-web-token": "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl",
    "bearer": "Bearer " + "k0" * 15,
    "url-password": "alice:hunter2hunter2",
    "assigned": "password = " + "l1" * 10,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = operated_run(tmp_path_factory.mktemp("runs"), steps=2)
    said = "\n".join(
        f"https://{s}@example.org" if kind == "url-password" else s for kind, s in SECRETS.items()
    )
    with RunWriter.resume(root) as writer:
        messages = (
            {"role": "user", "content": said},
            {"role": "assistant", "content": [{"type": "text", "text": said}]},
        )
        writer.append_trajectory(
            trajectory("s00003.g00.r0", messages=messages, patch=said, error=said), step=3
        )
    return root


def exported(run: Path, out: Path, kind: str, *more: str) -> int:
    return main(["export", str(run), "--format", kind, "--out", str(out), *more])


def test_every_trajectory_becomes_a_valid_atif_document_with_its_tokens(run: Path, tmp_path: Path) -> None:
    assert exported(run, tmp_path / "out", "atif") == 0
    index = RunReader(run).trajectory_index()
    assert {path.stem for path in (tmp_path / "out").iterdir()} == {entry.id for entry in index}
    for entry in index:
        document = json.loads((tmp_path / "out" / f"{entry.id}.json").read_text())
        told = atif.Trajectory.model_validate(document)
        assert told.final_metrics is not None
        assert told.final_metrics.total_completion_tokens == entry.sampled
        assert document["extra"]["reward"] == entry.reward
        metrics = [step.metrics for step in told.steps if step.metrics]
        assert sum(len(m.completion_token_ids or ()) for m in metrics) == entry.sampled
        assert all(len(m.completion_token_ids or ()) == len(m.logprobs or ()) for m in metrics)


def test_a_tool_result_stands_with_its_call(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "out", "atif", "--id", "s00001.g00.r0")
    (path,) = (tmp_path / "out").iterdir()
    user, agent = json.loads(path.read_text())["steps"]
    assert (user["source"], agent["source"]) == ("user", "agent")
    assert agent["tool_calls"] == [
        {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": "ls"}}
    ]
    assert agent["observation"]["results"] == [{"source_call_id": "c1", "content": "stats.py"}]


@pytest.mark.parametrize("kind", ["atif", "jsonl", "otel"])
def test_no_secret_leaves_the_run(run: Path, tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    assert exported(run, out, kind, "--steps", "3") == 0
    text = out.read_text() if out.is_file() else "".join(path.read_text() for path in out.iterdir())
    assert text
    for secret in SECRETS.values():
        assert secret not in text
        assert json.dumps(secret)[1:-1] not in text


@pytest.mark.parametrize("kind", SECRETS)
def test_each_kind_of_secret_is_known(kind: str) -> None:
    assert set(SECRETS) == set(PATTERNS)
    secret = SECRETS[kind]
    before = f"https://{secret}@host" if kind == "url-password" else f"key {secret} end"
    assert secret not in redact_text(before)
    assert "[redacted: " in redact_text(before)


@pytest.mark.parametrize(
    "text", ["sk-learn is a library", "the token count: 1234", "def f(password): return 1", "eyJ"]
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact_text(text) == text


def test_a_text_made_to_be_slow_is_read_like_any_other() -> None:
    """Each start of something like a token looks ahead to the end of the text: hours, of a megabyte."""
    text = "eyJ-" * 250_000
    assert redact_text(text) == text
    token = SECRETS["json-web-token"]
    assert redact_text(f"{text} {token}") == f"{text} [redacted: json-web-token]"


def test_a_document_is_json_for_every_reader_and_lies_in_its_folder(tmp_path: Path) -> None:
    root = operated_run(tmp_path / "runs", steps=1)
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"x": NaN}'}}
    messages = ({"role": "assistant", "content": "", "tool_calls": [call]},)
    with RunWriter.resume(root) as writer:
        writer.append_trajectory(trajectory("../../outside", messages=messages), step=2)
    assert exported(root, tmp_path / "out", "atif", "--id", "../../outside") == 0
    (path,) = (tmp_path / "out").iterdir()

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    document = json.loads(path.read_text(), parse_constant=refuse)
    assert document["trajectory_id"] == "../../outside"
    assert document["steps"][0]["tool_calls"][0]["arguments"] == {"raw": '{"x": NaN}'}
    assert {found.name for found in tmp_path.iterdir()} == {"runs", "out"}


def test_what_cannot_be_done_is_told_in_one_line(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (["--steps", "9"], ["--steps", "x"], ["--id", "nope"]):
        assert exported(run, tmp_path / "out", "jsonl", *arguments) == 2
    assert exported(tmp_path, tmp_path / "out", "jsonl") == 2
    assert len(capsys.readouterr().err.splitlines()) == 4
    assert list(tmp_path.iterdir()) == []


def test_spans_are_otlp_json(run: Path, tmp_path: Path) -> None:
    exported(run, tmp_path / "out", "otel", "--steps", "1")
    for line in (tmp_path / "out").read_text().splitlines():
        spans: list[dict[str, Any]] = json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        assert {len(span["traceId"]) for span in spans} == {32}
        assert [span["parentSpanId"] for span in spans] == ["", spans[0]["spanId"]]
