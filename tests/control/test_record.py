"""`lego record`: a real harness against a scripted model, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lego_control.cli import main
from lego_harness.adapters.install import MINI_SWE, install


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["vim"], "expected one of: mini-swe-agent"),
        (["mini-swe-agent", "--scenario", "subagent"], "has no sub-agents"),
        (["mini-swe-agent", "--scenario", "nothing"], "expected one of plain"),
        (["mini-swe-agent", "--out", "x.txt"], "expected a .jsonl file"),
    ],
)
def test_what_is_wrong_is_one_line_and_exit_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    out = [] if "--out" in arguments else ["--out", "x.jsonl"]
    assert main(["record", *arguments, *out, "--sandbox", "bubblewrap"]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_recording_is_written_and_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install(MINI_SWE)
    out = tmp_path / "mini.jsonl"
    assert main(["record", "mini-swe-agent", "--out", str(out), "--sandbox", "bubblewrap"]) == 0
    assert "4 requests of mini-swe-agent" in capsys.readouterr().out
    calls = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(call["n"], call["class"], call["step"]) for call in calls] == [
        (1, "main", 0),
        (2, "main", 1),
        (3, "main", 2),
        (4, "main", 3),
    ]
    names = {name.lower() for call in calls for name, _ in call["headers"]}
    assert "user-agent" in names
    assert not names & {"authorization", "host", "x-api-key"}
    assert all(call["path"] == "/v1/chat/completions" for call in calls)
    assert "mini-swe" not in out.read_text()
    assert main(["replay", str(out), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["turns"], [one["cause"] for one in shown["branches"]]) == (4, ["start"])
