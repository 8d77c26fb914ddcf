"""What a pipeline gets: exit codes, JSON, JUnit, GitHub's summary and annotations."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from lego_control.ci.formats import MAX_SUMMARY_BYTES, github_annotations, junit, summary
from lego_control.ci.gate import compare, decide, t_quantile
from lego_control.ci.outcome import Outcome, Report, Status
from lego_control.ci.publish import Outputs, publish
from lego_control.cli import main
from lego_core.store import RunWriter
from lego_harness.types import Grade
from tests.support.runs import heldout, recipe, step, trajectory


def a_run(
    folder: Path, rewards: list[float], *, status: str = "finished", reason: str = "", solved: int = -1
) -> Path:
    """A closed run with the given mean rewards; `solved` of 40 held-out tasks at its end."""
    writer = RunWriter.create(folder, recipe())
    for number, reward in enumerate(rewards, start=1):
        writer.append_step(step(number, reward_mean=reward))
    if solved >= 0:
        writer.append_heldout(heldout(len(rewards), solved / 40))
        for i in range(40):
            grade = Grade(reward=float(i < solved), tests={}, duration_s=0)
            made = trajectory(f"e{len(rewards):05d}.t{i:03d}.r0", task_id=f"task-{i}", grade=grade)
            writer.append_trajectory(made, step=None)
    writer.close(status, reason)
    return writer.layout.root


def rising(n: int = 30) -> list[float]:
    return [0.2 + 0.01 * i + 0.02 * math.sin(5 * i) for i in range(n)]


def collapsed() -> list[float]:
    return rising() + [0.01] * 15


def test_a_run_that_keeps_its_policy_passes(tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('action = "stop"\n[[limits]]\nmetric = "reward"\nmin = 0.3\n')
    assert main(["check", str(a_run(tmp_path, rising())), "--policy", str(policy)]) == 0


def test_a_broken_limit_fails_and_says_by_how_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[limits]]\nmetric = "reward"\nmin = 0.9\nsteps = 3\n')
    assert main(["check", str(a_run(tmp_path, rising())), "--policy", str(policy), "--json", "-"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [c["status"] for c in told["checks"]] == ["passed", "failed"]
    assert "expected at least 0.9 over the last 3 steps" in told["checks"][1]["evidence"]


def test_a_limit_that_cannot_be_judged_any_more_is_inconclusive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('[[limits]]\nmetric = "k3"\nmax = 0.001\n')
    with RunWriter.create(tmp_path, recipe()) as writer:
        for number in range(1, 11):
            writer.append_step(step(number, reward_mean=0.5, k3=1e-9 if number == 1 else None))
    assert main(["check", str(writer.layout.root), "--policy", str(policy), "--json", "-"]) == 3
    limit = json.loads(capsys.readouterr().out)["checks"][1]
    assert (limit["status"], limit["evidence"]) == (
        "error",
        "no value, expected at most 0.001 over the last 5 steps",
    )


def test_a_collapsed_run_is_exit_code_four(tmp_path: Path) -> None:
    assert main(["check", str(a_run(tmp_path, collapsed()))]) == 4


def test_too_few_steps_are_inconclusive(tmp_path: Path) -> None:
    assert main(["check", str(a_run(tmp_path, [0.2, 0.3]))]) == 3


@pytest.mark.parametrize("text", ["action = 'explode'", "[[limits]]\nmetric = 'nonsense'\nmin = 1", "= ="])
def test_a_policy_that_is_wrong_is_usage(tmp_path: Path, text: str) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(text)
    assert main(["check", str(a_run(tmp_path, rising())), "--policy", str(policy)]) == 2


def test_a_backtest_says_which_past_run_would_have_been_stopped_and_when(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, bad = a_run(tmp_path / "a", rising()), a_run(tmp_path / "b", collapsed())
    assert main(["check", "--backtest", str(good)]) == 0
    capsys.readouterr()
    assert main(["check", "--backtest", str(good), str(bad), "--json", "-"]) == 4
    first, second = json.loads(capsys.readouterr().out)["checks"]
    assert (first["status"], second["status"]) == ("passed", "failed")
    assert "would have been stopped behind step 4" in second["evidence"]


def test_diagnose_gives_verdict_evidence_and_the_next_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = a_run(tmp_path, collapsed())
    assert main(["diagnose", str(run), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["verdict"], told["stop_reasons"]) == ("collapsed", ["reward/robust_drop"])
    assert told["hypotheses"][0]["next_check"]
    assert told["evidence"][0]["metric"] == "reward"
    assert main(["diagnose", str(run), "--step", "30", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "healthy"
    assert main(["diagnose", str(run)]) == 0
    assert "✖ collapsed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("solved", "against", "min_effect", "code", "decision"),
    [
        (38, 10, 0.1, 0, "passed"),
        (10, 38, 0.0, 1, "failed"),
        (21, 20, 0.0, 3, "inconclusive"),
        (20, 20, -0.1, 0, "passed"),
        (20, 20, 0.0, 3, "inconclusive"),
    ],
)
def test_a_gate_is_paired_by_task_and_may_not_know(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    solved: int,
    against: int,
    min_effect: float,
    code: int,
    decision: str,
) -> None:
    candidate = a_run(tmp_path / "a", [0.5], solved=solved)
    baseline = a_run(tmp_path / "b", [0.5], solved=against)
    asked = ["gate", "--candidate", str(candidate), "--baseline", str(baseline), "--json", "-"]
    assert main([*asked, "--min-effect", str(min_effect)]) == code
    told = json.loads(capsys.readouterr().out)
    assert told["decision"] == decision
    assert told["comparison"]["effect"] == pytest.approx((solved - against) / 40)


def test_the_interval_of_a_gate_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        base = rng.random(30)
        ours = {str(i): v for i, v in enumerate(np.clip(base + rng.normal(0.1, 0.2, 30), -9, 9))}
        theirs = {str(i): v for i, v in enumerate(base)}
        made = compare(ours, theirs, confidence=0.95)
        hits += made.low <= 0.1 <= made.high
    assert 0.92 <= hits / 400 <= 0.98


def test_nine_tasks_never_decide() -> None:
    ours, theirs = {str(i): 1.0 for i in range(9)}, {str(i): 0.0 for i in range(9)}
    assert decide(compare(ours, theirs, confidence=0.95), 0.0) is Status.ERROR


@pytest.mark.parametrize(("df", "exact"), [(9, 2.262157), (29, 2.045230), (95, 1.985251)])
def test_the_quantile_of_student(df: int, exact: float) -> None:
    assert t_quantile(0.975, df) == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize(
    ("status", "reason", "rewards", "code"),
    [
        ("finished", "", [0.2], 0),
        ("failed", "disk full", [0.2], 3),
        ("interrupted", "KeyboardInterrupt", [0.2], 3),
        ("interrupted", "stopped by ann@host behind step 3: why", [0.2], 4),
        ("finished", "", [*rising(), *[0.01] * 15], 4),
    ],
)
def test_waiting_ends_with_how_the_run_ended(
    tmp_path: Path, status: str, reason: str, rewards: list[float], code: int
) -> None:
    assert main(["wait", str(a_run(tmp_path, rewards, status=status, reason=reason))]) == code


def test_waiting_gives_up_when_it_was_told_to(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path, recipe())
    assert main(["wait", str(writer.layout.root), "--timeout", "0s"]) == 3
    assert main(["wait", str(writer.layout.root), "--timeout", "soon"]) == 2
    writer.close("finished")


def a_report(*outcomes: Outcome) -> Report:
    return Report(title="t", outcomes=outcomes, properties={"seed": "0"})


def outcome(status: Status, evidence: str = "seen", name: str = "a") -> Outcome:
    return Outcome(name=name, status=status, seconds=1.5, evidence=evidence, remedy="do")


def test_junit_tells_failures_errors_and_waivers_apart_and_is_always_xml() -> None:
    report = a_report(
        outcome(Status.PASSED, "\x00\x1b[31m <&> \ufffe"),
        outcome(Status.FAILED),
        outcome(Status.ERROR),
        outcome(Status.SKIPPED),
        outcome(Status.WAIVED, "broken"),
    )
    suite = ET.fromstring(junit(report))
    assert {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    assert "waived: broken" in "".join(suite.itertext())
    assert suite.find("properties/property").get("value") == "0"  # type: ignore[union-attr]


def test_a_summary_fits_and_holds_no_markup_of_others() -> None:
    assert len(summary(a_report(*[outcome(Status.FAILED, "x" * 9000)] * 200)).encode()) < 2**20
    assert MAX_SUMMARY_BYTES < 2**20
    told = summary(a_report(outcome(Status.FAILED, "a | <img src=x> [l](u)\nb")))
    assert "<img" not in told
    assert "a &#124; &#60;img src=x&#62; &#91;l&#93;(u) b" in told


def test_annotations_are_ten_of_a_kind_at_most_and_one_line_each() -> None:
    many = [outcome(Status.FAILED, "100%\nbad", name=f"c,{i}:") for i in range(25)]
    lines = list(github_annotations(a_report(*many)))
    assert len(lines) == 10
    assert lines[0] == "::error title=c%2C0%3A::100%25%0Abad do"
    assert lines[-1].startswith("::error title=16 more::")


def test_the_summary_and_annotations_reach_github(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    report = tmp_path / "junit.xml"
    run = a_run(tmp_path, collapsed())
    assert main(["check", str(run), "--summary", "auto", "--junit", str(report)]) == 4
    assert "✖ failed" in (tmp_path / "summary.md").read_text()
    assert ET.parse(report).getroot().get("failures") == "1"
    assert "::error title=" in capsys.readouterr().out


def test_what_a_check_saw_begins_no_line_of_a_pipelines_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    seen = "\n::stop-commands::x\r::add-mask::y\x1b[2J"
    publish(
        a_report(outcome(Status.FAILED, seen, name=f"a{seen}")), Outputs(junit=None, json=None, summary=None)
    )
    out = capsys.readouterr().out
    assert [line[:8] for line in out.splitlines() if line.startswith("::")] == ["::error "]
    assert "\x1b" not in out


def test_a_key_that_a_policy_does_not_have_is_named_with_those_it_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text("actoin = 'stop'")
    assert main(["check", str(a_run(tmp_path, rising())), "--policy", str(policy)]) == 2
    assert "unknown key 'actoin' (known: action, grace_steps, limits)" in capsys.readouterr().err


def test_a_step_that_has_not_been_is_not_diagnosed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(a_run(tmp_path, rising())), "--step", "99"]) == 2
    assert "--step 99" in capsys.readouterr().err
