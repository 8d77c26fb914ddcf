"""The `lego` command, from what a person types to the exit code and the lines they get."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lego_control.cli import main
from lego_core.pass_rates import pass_rates
from lego_core.recipe_file import load_recipe
from lego_core.store import RunWriter
from tests.support.runs import heldout, recipe, step, write_run

ISSUE_STEP_FIELDS = {
    "step",
    "policy_version",
    "reward_mean",
    "solved",
    "groups",
    "zero_variance_groups",
    "pearson_r",
    "mean_abs_dlogp",
    "k3",
    "routing_coverage",
    "sampled",
    "trained",
    "masked",
    "dropped",
    "tokens_per_s",
    "seconds",
}
STEP_FIELDS = ISSUE_STEP_FIELDS | {"lag", "trainer_idle", "engine_idle"}


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """What went to stderr, which must be one line and no traceback."""
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("lego: ")
    return captured.err


def test_show_json_gives_what_programs_were_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path)
    assert main(["show", str(run), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert set(shown) == {"run", "status", "steps", "heldout", "config"}
    assert (shown["run"], shown["status"]) == (str(run), "finished")
    assert [set(s) for s in shown["steps"]] == [STEP_FIELDS] * 3
    assert shown["steps"][1]["reward_mean"] == 0.2
    assert shown["steps"][1]["masked"] == {"zero_variance": 100}
    assert shown["heldout"] == [
        {"step": 0, "solve_rate": 0.25, "n": 64, "rates": None},
        {"step": 3, "solve_rate": 0.75, "n": 64, "rates": None},
    ]
    assert shown["config"] == recipe().model_dump(mode="json")


def test_what_was_not_measured_is_null_for_programs_and_a_dash_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.append_step(step(1, reward_mean=None, pearson_r=float("nan"), k3=float("inf")))
    run = str(writer.layout.root)
    assert main(["show", run, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["steps"][0]
    assert (shown["reward_mean"], shown["pearson_r"], shown["k3"]) == (None, None, None)
    assert main(["show", run]) == 0
    assert "–" in capsys.readouterr().out


def test_a_quickstart_installs_the_harness_it_was_asked_for_before_anything_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEGO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert main(["quickstart", "--harness", "claude-code"]) == 3
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("installing claude-code ")
    assert "claude-code needs npm on PATH to be installed" in said[1]
    assert not (tmp_path / "runs").exists()


def test_show_says_how_sure_an_evaluation_is_and_what_several_attempts_are_worth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tries = [[True] * 4] * 24 + [[True, False] * 2] * 24 + [[False] * 4] * 48
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.append_heldout(replace(heldout(0, 0.375), n=384, rates=pass_rates(tries, 4)))
    assert main(["show", str(writer.layout.root)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "held-out at step 0: 38 % of 384 solved (28–47 %), pass@4 50 % (40–60 %), pass^4 25 % (17–35 %)"
        in shown
    )


def test_show_without_a_run_takes_the_newest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(Path("runs"))
    newest = write_run(Path("runs"), steps=(1,))
    assert main(["show", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == str(newest.resolve())


def test_show_draws_every_step_the_evaluations_and_a_curve(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path)
    assert main(["show", str(run)]) == 0
    shown = capsys.readouterr().out
    rows = [line.split() for line in shown.splitlines()]
    assert [
        "2",
        "0.200",
        "2/64",
        "7/8",
        "0.99999",
        "1.0e-06",
        "1.0e-12",
        "1.00",
        "900/1000",
        "1",
        "512",
        "6",
        "%",
        "80",
        "%",
        "4",
    ] in rows
    assert "finished" in shown
    assert "held-out at step 0: 25 % of 64 solved" in shown
    assert "held-out at step 3: 75 % of 64 solved" in shown
    assert [line.rstrip() for line in shown.splitlines() if "┤" in line][-4:] == [
        "0.4 ┤",
        "0.3 ┤  █",
        "0.2 ┤ ██",
        "0.1 ┤███",
    ]


def test_show_says_why_a_run_failed_without_obeying_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = RunWriter.create(tmp_path, recipe())
    writer.close("failed", "engine gone [bold]really[/bold]")
    assert main(["show", str(writer.layout.root)]) == 0
    assert "failed: engine gone [bold]really[/bold]" in capsys.readouterr().out


def test_a_run_is_shown_while_it_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = RunWriter.create(tmp_path, recipe())
    writer.append_heldout(heldout())
    assert main(["show", str(writer.layout.root)]) == 0
    assert "running" in capsys.readouterr().out
    writer.close("finished")


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (["show", "nowhere"], "nowhere is no run: it has no run.json"),
        (["show"], "no run in runs; start one with: lego quickstart"),
        (["train", "nowhere.toml"], "recipe nowhere.toml: cannot be read as TOML"),
        (["train"], "got neither RECIPE nor --resume RUN, expected at least one"),
        (["train", "good.toml", "--resume", "nowhere"], "nowhere is no run"),
        (["train", "--resume", "nowhere"], "nowhere is no run"),
        (["train", "--resume", "nowhere", "--set", "train.steps=1"], "nowhere is no run"),
        (
            ["train", "good.toml", "--set", "train.stepz=1"],
            "unknown key 'train.stepz' (did you mean 'steps'?)",
        ),
        (["train", "good.toml", "--set", "steps"], "--set got 'steps', expected section.key=value"),
        (["train", "good.toml", "--seed", "-1"], "Invalid value for '--seed'"),
        (["train", "bad.toml"], "unknown key 'trian'"),
        (["quickstart", "--harness", "emacs"], "Invalid value for '--harness'"),
        (
            ["quickstart", "--harness", "codex"],
            "no tiny policy for codex, only for mini-swe-agent, claude-code; train a checkpoint of yours in it "
            'by a recipe with model.path and harness.name = "codex": lego train RECIPE.toml',
        ),
        (["tiny-model", "--harness", "openhands"], "no tiny policy for openhands"),
        (["quickstart", "--sandbox", "none"], "Invalid value for '--sandbox'"),
        (["qickstart"], "No such command 'qickstart'"),
        (["show", "--jsno"], "No such option"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("good.toml").write_text("[train]\nsteps = 1\n")
    Path("bad.toml").write_text("[trian]\nsteps = 1\n")
    assert main(command) == 2
    assert says in one_line(capsys)
    assert {path.name for path in tmp_path.iterdir()} == {"good.toml", "bad.toml"}


def _resumed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *more: str) -> tuple[int, list[list[str]]]:
    """`lego train --resume` of a run of steps = 3: the exit code, and what the core was started with."""
    started: list[list[str]] = []
    monkeypatch.setattr("lego_control.supervisor.train", lambda args, console: started.append(args) or 0)
    run = RunWriter.create(tmp_path / "runs", load_recipe(tmp_path / "own.toml"))
    run.close("interrupted")
    code = main(["train", *more, "--resume", str(run.layout.root)])
    return code, [[a for a in args if a != str(run.layout.root)] for args in started]


@pytest.mark.parametrize("more", [[], ["own.toml"], ["other.toml", "--set", "train.steps=3"]])
def test_a_run_goes_on_without_its_recipe_or_with_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text("[train]\nsteps = 3\n")
    Path("other.toml").write_text("[train]\nsteps = 5\n")
    assert _resumed(monkeypatch, tmp_path, *more) == (0, [["--resume"]])


def test_a_run_goes_on_with_another_learning_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text("[train]\nsteps = 3\n")
    change = ["--set", "train.learning_rate=1e-7"]
    assert _resumed(monkeypatch, tmp_path, *change) == (0, [["--resume", *change]])


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["other.toml"], "other.toml differs in train.steps: 3 → 5; leave RECIPE out"),
        (["own.toml", "--seed", "7"], "own.toml differs in run.seed: 0 → 7"),
        (["--set", "train.steps=5"], "a resumed run keeps the recipe it was started with"),
        (["--seed", "7"], "--set run.seed: a resumed run keeps the recipe it was started with"),
        (
            ["--set", "train.learning_rate=-1"],
            "train.learning_rate: input should be greater than or equal to 0",
        ),
        (["--set", "learning_rate=1"], "--set got 'learning_rate=1', expected section.key=value"),
    ],
)
def test_a_run_does_not_go_on_with_another_recipe(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    more: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text("[train]\nsteps = 3\n")
    Path("other.toml").write_text("[train]\nsteps = 5\n")
    assert _resumed(monkeypatch, tmp_path, *more) == (2, [])
    assert says in one_line(capsys)


def test_a_broken_run_is_one_line_and_exit_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path)
    (run / "steps.jsonl").write_text('{"step": 1}\n')
    assert main(["show", str(run)]) == 3
    assert "steps.jsonl:1: StepRecord: field 'clip_fraction' is missing" in one_line(capsys)


def test_training_without_its_libraries_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lego_control.supervisor.NEEDED", ("a_library_nobody_has",))
    (tmp_path / "r.toml").write_text("[train]\nsteps = 1\n")
    assert main(["train", str(tmp_path / "r.toml")]) == 3
    assert "training needs a_library_nobody_has" in one_line(capsys)


@pytest.mark.parametrize("flags", [["--json"], []])
def test_a_reader_that_goes_away_causes_no_traceback(tmp_path: Path, flags: list[str]) -> None:
    command = [sys.executable, "-m", "lego_control", "show", str(write_run(tmp_path)), *flags]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.stderr, done.returncode) == ("", 1)


@pytest.mark.parametrize(
    "command",
    [
        ["gate", "--candidate", "a", "--baseline", "b", "--min-effect", "nan"],
        ["gate", "--candidate", "a", "--baseline", "b", "--confidence", "nan"],
        ["tasks", "select", "pool", "--run", "a", "--out", "b", "--low", "nan"],
        ["proxy", "--upstream", "http://127.0.0.1:1", "--model", ".", "--temperature", "nan"],
        ["demo-runs", "out", "--live", "healthy", "--seconds-per-step", "inf"],
    ],
)
def test_a_number_that_is_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    assert "is no finite number" in one_line(capsys)
    assert not list(tmp_path.iterdir())


def test_a_name_never_drives_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(tmp_path / "\x1b[31m\x07\u202e")]) == 2
    assert one_line(capsys).rstrip("\n").isprintable()


@pytest.mark.parametrize(
    "command",
    [["report", "x" * 300], ["top", "x" * 300], ["tasks", "audit", "x" * 300]],
)
def test_a_file_system_that_refuses_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert main(command) == 3
    assert "check that it exists and may be used" in one_line(capsys)


def test_a_group_of_commands_without_one_shows_its_help_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sandbox"]) == 2
    assert "\n  reap" in capsys.readouterr().err


def test_a_pattern_is_quoted_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r.toml").write_text("[run]\nname = 'a/b'\n")
    assert main(["train", "r.toml"]) == 2
    assert "[A-Za-z0-9]" in one_line(capsys)


@pytest.mark.parametrize(
    ("file", "text", "command", "says"),
    [
        ("r.toml", "[harness]\nname = 'command'", ["train", "r.toml"], "harness: name = "),
        (
            "r.toml",
            "[[watchdog.limits]]\nmetric = 'entropy'",
            ["train", "r.toml"],
            "expected min, max or both",
        ),
        (
            "p.toml",
            "[[limits]]\nmetric = 'entropy'",
            ["check", "run", "--policy", "p.toml"],
            "limits.0: expected min, max or both",
        ),
    ],
)
def test_what_we_say_of_a_wrong_value_has_no_words_of_a_library_before_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    text: str,
    command: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path).rename("run")
    Path(file).write_text(text)
    assert main(command) == 2
    told = one_line(capsys)
    assert says in told
    assert "alue error" not in told


def test_a_token_without_http_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--token-file", str(tmp_path / "token")]) == 2
    assert "add --http PORT, or leave it out" in one_line(capsys)
