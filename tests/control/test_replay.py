"""`lego replay`: what a person types, what programs read, and the exit codes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from lego_control import replay as command
from lego_control.cli import main
from tests.support.checkpoint import write_checkpoint
from tests.support.recordings import Chat, Tape

RECORDINGS = Path(__file__).parents[1] / "data" / "wire"
FIELDS = {"turns", "branches", "sampled", "trained", "masked", "side_calls", "sub_agents", "forks", "errors"}


def recording(folder: Path, *sessions: str) -> str:
    tape = Tape()
    for name in sessions:
        talk = Chat(tape, x_session_id=name)
        talk.tool_turn()
        talk.turn("Done.")
    return str(tape.write(folder))


def test_json_is_one_object_per_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", recording(tmp_path, "one", "two"), "--json"]) == 0
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [set(one) for one in shown] == [FIELDS, FIELDS]
    assert [(one["turns"], one["sampled"] - one["trained"], one["forks"]) for one in shown] == [
        (2, 0, [])
    ] * 2
    (branch,) = shown[0]["branches"]
    assert set(branch) == {"cause", "at", "tokens_context", "tokens_trained"}
    assert (branch["cause"], branch["at"], branch["tokens_trained"]) == ("start", 0, shown[0]["trained"])


def test_a_person_sees_branches_forks_side_calls_and_the_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(RECORDINGS / "server" / "claude-code.compaction.jsonl.gz")]) == 0
    shown = capsys.readouterr().out
    assert [line for line in shown.splitlines() if "│" in line and "compaction" in line]
    assert "17 turns, 0 sub-agents; 2144 tokens sampled = 2144 trained + 0 masked: conserved" in shown
    assert "side calls: compaction 1" in shown
    assert "fork at turn 15, message 31: reply_dropped" in shown


def test_a_tokenizer_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recording(tmp_path, "one")
    assert main(["replay", path, "--json"]) == 0
    assert main(["replay", path, "--json", "--tokenizer", str(write_checkpoint(tmp_path / "model"))]) == 0
    one, other = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert one["turns"] == other["turns"]
    assert one["sampled"] > other["sampled"] > 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["missing.jsonl"], "missing.jsonl: cannot be read"),
        (["{tmp}/broken.jsonl"], "line 1: "),
        (["{tmp}/corrupt.jsonl.gz"], "corrupt.jsonl.gz: cannot be read"),
        (["{tmp}/recording.jsonl", "--tokenizer", "{tmp}/list"], "expected an object"),
        (["{tmp}/recording.jsonl", "--tokenizer", "{tmp}"], "--tokenizer"),
        ([], "Missing argument 'FILE'"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    recording(tmp_path, "one")
    (tmp_path / "broken.jsonl").write_text('{"n": 1}\n')
    packed = gzip.compress(b'{"n": 1}')
    (tmp_path / "corrupt.jsonl.gz").write_bytes(packed[:10] + b"\xff" * 8 + packed[18:])
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / "tokenizer_config.json").write_text("[]")
    assert main(["replay", *(word.format(tmp=tmp_path) for word in arguments)]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1


def test_a_lost_token_is_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "is_conserved", lambda replayed: False)
    assert main(["replay", recording(tmp_path, "one")]) == 1
    assert "NOT CONSERVED" in capsys.readouterr().out


def test_a_recorded_conversation_that_no_template_takes_is_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_checkpoint(tmp_path / "model")
    template = model / "chat_template.jinja"
    refusal = "{%- for m in messages if m.content == 'Forbidden.' %}{{ raise_exception('no') }}{%- endfor %}"
    template.write_text(refusal + template.read_text())
    tape = Tape()
    Chat(tape, task="Forbidden.").turn("Done.")
    path = str(tape.write(tmp_path))
    assert main(["replay", path, "--tokenizer", str(model), "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["errors"][-1]["stop"] == "failed_alignment"
    assert captured.err == ""
