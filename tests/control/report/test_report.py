"""`lego report`, `lego compare` and `lego review`, as a person or a program types them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lego_control.cli import main
from lego_control.demo_runs.write import write_demo_runs
from lego_control.report.make import PARTS
from lego_core.store import RunWriter
from lego_harness.types import Finding, FindingKind, Grade
from tests.support.runs import heldout, recipe, step, trajectory, write_run

pytestmark = pytest.mark.long

Said = pytest.CaptureFixture[str]
HOSTILE = "</pre><script>alert(1)</script> | `x` \x1b[2J \u202e $\\frac{$ &lt; \ud800"


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short example runs. Only to be read."""
    folder = tmp_path_factory.mktemp("report")
    for _ in write_demo_runs(folder, ("healthy", "reward-hack"), steps=10):
        pass
    return folder


def parts_of(arguments: list[str], said: Said) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == 0
    return {part["id"]: part for part in json.loads(said.readouterr().out)["parts"]}


def cells(part: dict[str, Any], place: int = 0) -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in part["tables"][place]["rows"]}


def test_every_part_is_there_or_says_what_would_make_it(demo: Path, capsys: Said) -> None:
    parts = parts_of(["report", str(demo / "reward-hack")], capsys)
    assert list(parts) == list(PARTS)
    for part in parts.values():
        assert bool(part["missing"]) != bool(part["tables"] or part["figures"] or part["quotes"])
    assert {name for name, part in parts.items() if part["missing"]} == {"table5", "fig6", "fig10", "review"}


def test_the_numbers_are_those_of_the_run(tmp_path: Path, capsys: Said) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.append_heldout(heldout(0, 0.25))
        for number in range(1, 7):
            for rollout in range(2):
                grade = Grade(reward=float(rollout < (number > 3) + 1), tests={}, duration_s=1.0)
                record = trajectory(f"s{number:05d}.g00.r{rollout}", grade=grade, timings_s={"agent": 3.0, "grading": 1.0})  # fmt: skip
                writer.append_trajectory(record, step=number)
            gaps = {"p50": 1e-6 * number, "p90": 2e-6, "p99": 3e-6}
            writer.append_step(
                step(number, k3=0.002, pearson_r_logp=0.9995, mean_abs_dp=0.01, rollout_gap=gaps)
            )
        run = writer.layout.root
    parts = parts_of(["report", str(run)], capsys)
    assert parts["table3"]["tables"][0]["rows"] == [["0.99999", "0.99950", "2", "0.0035", "0.002", "0.003"]]
    assert parts["table7"]["tables"][0]["rows"] == [["1.0000", "0.0100", "1.0000", "1.0000", "1.0000"]]
    assert cells(parts["table4"])["agent"] == ["3", "3", "3", "3", "75.0 %"]
    rewards = parts["fig3"]["figures"][0]
    assert rewards["x"] == list(range(7))
    assert rewards["curves"]["training reward"][1:] == pytest.approx([0.1 * n for n in range(1, 7)])
    assert rewards["curves"]["held-out solve rate"] == [0.25, *[None] * 6]
    table9 = cells(parts["table9"])
    assert table9["coverage pass@2"][:2] == ["100.0 %", "100.0 %"]
    assert table9["reliability pass^2"][:2] == ["0.0 %", "100.0 %"]
    assert parts["fig5"]["figures"][0]["curves"] == {"first third": [0, 1, 0], "last third": [0, 0, 1]}


def test_a_planted_hack_is_in_the_verdict_and_in_the_integrity_table(demo: Path, capsys: Said) -> None:
    parts = parts_of(["report", str(demo / "reward-hack"), "--only", "summary,table6"], capsys)
    assert list(parts) == ["summary", "table6"]
    assert "heldout/apart" in json.dumps(parts["summary"])
    assert "the patch hooks into the test runner" in cells(parts["table6"])


class Tags(HTMLParser):
    """Every element, attribute and piece of text of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.addresses: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [
            v or "" for k, v in attrs if k in ("href", "src", "xlink:href") or k.startswith("on")
        ]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def write_hostile(folder: Path) -> Path:
    with RunWriter.create(folder, recipe()) as writer:
        call = {
            "type": "function",
            "id": "c",
            "function": {"name": HOSTILE, "arguments": {"command": HOSTILE}},
        }
        messages = ({"role": HOSTILE, "content": HOSTILE}, {"role": "assistant", "content": HOSTILE, "tool_calls": [call, 7]})  # fmt: skip
        for number in (1, 2):
            record = trajectory(f"s0000{number}.g00.r0", messages=messages, patch=HOSTILE, task_id=HOSTILE, timings_s={HOSTILE: 1.0})  # fmt: skip
            writer.append_trajectory(record, step=number)
        writer.append_step(replace(step(1), loss=float("nan"), entropy=float("inf"), seconds={HOSTILE: 1.0}))
        writer.append_step(replace(step(2), reward_mean=None, dropped={HOSTILE: 1}))
        root = writer.layout.root
    with (root / "steps.jsonl").open("a") as file:
        file.write('{"step": 3, "reward_mean": "NaN", "groups": 1e400}\n{"step": [')
    (root / "review.jsonl").write_text('{"label": "fine"}\nno json\n')
    return root


def test_a_hostile_run_is_shown_escaped_in_one_file_that_runs_and_loads_nothing(tmp_path: Path) -> None:
    run = write_hostile(tmp_path)
    html, md = tmp_path / "r.html", tmp_path / "r.md"
    assert main(["report", str(run), "--html", str(html), "--md", str(md)]) == 0
    page = Tags()
    page.feed(html.read_text())
    assert "script" not in page.tags
    assert all(address.startswith("#") for address in page.addresses)
    assert "alert(1)" in "".join(page.text)  # shown, not hidden
    for text in (html.read_text(), md.read_text()):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", text)
    outside = [line for line in md.read_text().splitlines() if not line.startswith("    ")]
    assert not any("<script" in line for line in outside)


@pytest.mark.parametrize("name", ["steps.jsonl", "events.jsonl", "heldout.jsonl", "trajectories/index.jsonl", "trajectories/00001.zst"])  # fmt: skip
def test_a_file_that_is_cut_or_gone_costs_no_more_than_what_was_in_it(
    tmp_path: Path, name: str, capsys: Said
) -> None:
    run = write_run(tmp_path)
    path = run / name
    path.write_bytes(path.read_bytes()[:-7])
    parts = parts_of(["report", str(run)], capsys)
    assert len(parts) == len(PARTS)
    path.unlink()
    assert len(parts_of(["report", str(run)], capsys)) == len(PARTS)


def test_a_run_without_a_step_has_a_report(tmp_path: Path, capsys: Said) -> None:
    RunWriter.create(tmp_path, recipe()).close("failed", "at once")
    (run,) = tmp_path.iterdir()
    assert "at once" in json.dumps(parts_of(["report", str(run)], capsys)["summary"])


def test_what_is_no_run_or_no_part_is_one_line(tmp_path: Path, capsys: Said) -> None:
    assert main(["report", str(tmp_path)]) == 2
    assert "is no run" in capsys.readouterr().err
    assert main(["report", str(write_run(tmp_path)), "--only", "table99"]) == 2
    assert "no part 'table99'" in capsys.readouterr().err
    assert main(["compare", str(tmp_path)]) == 2
    assert "expected 2 to 8" in capsys.readouterr().err


def test_comparing_tells_the_settings_the_last_steps_and_the_tasks(demo: Path, capsys: Said) -> None:
    parts = parts_of(["compare", str(demo / "healthy"), str(demo / "reward-hack")], capsys)
    assert cells(parts["config"])["harness.name"] == ["claude-code", "mini-swe-agent"]
    reward = cells(parts["metrics"])["reward_mean"]
    assert float(reward[1]) > float(reward[0])
    assert reward[2].startswith("+")
    assert "24 tasks" in parts["tasks"]["says"]
    assert set(parts["curves"]["figures"][0]["curves"]) == {"A healthy", "B reward-hack"}


def test_a_run_against_itself_differs_in_nothing(demo: Path, capsys: Said) -> None:
    parts = parts_of(["compare", str(demo / "healthy"), str(demo / "healthy")], capsys)
    assert parts["config"]["missing"]
    assert "+0.0 points (95 %: +0.0 … +0.0); 0 better, 0 worse" in parts["tasks"]["says"]


def reviewed(run: Path, said: Said, *options: str) -> list[dict[str, Any]]:
    assert main(["review", str(run), "--json", *options]) == 0
    return [json.loads(line) for line in said.readouterr().out.splitlines()]


def test_the_queue_names_findings_and_siblings_that_disagree(tmp_path: Path, capsys: Said) -> None:
    flagged = Finding(kind=FindingKind.GIT_PROBE, detail="git log --all")
    with RunWriter.create(tmp_path, recipe()) as writer:
        for rollout, reward in enumerate((1.0, 0.0, 1.0)):
            patch = "--- a\n+++ b\n@@\n-1\n+2\n" if rollout < 2 else "--- a\n+++ b\n@@\n-1\n+3\n"
            grade = Grade(reward=reward, tests={}, duration_s=1.0)
            writer.append_trajectory(trajectory(f"s00001.g00.r{rollout}", grade=grade, patch=patch), step=1)
        empty = trajectory("s00001.g01.r0", patch="", task_id="free", integrity=(flagged,))
        writer.append_trajectory(empty, step=1)
        writer.append_step(step(1))
        run = writer.layout.root
    found = {item["rollout"]: " ".join(item["reasons"]) for item in reviewed(run, capsys)}
    assert found.keys() == {"s00001.g00.r0", "s00001.g00.r1", "s00001.g01.r0"}
    assert "the same change as a sibling's" in found["s00001.g00.r0"]
    assert "a full reward for an empty patch" in found["s00001.g01.r0"]
    assert "git_probe: git log --all" in found["s00001.g01.r0"]


def test_labels_are_kept_the_newest_holds_and_the_report_and_the_export_show_them(
    tmp_path: Path, capsys: Said
) -> None:
    run = write_hostile(tmp_path)
    name = "s00001.g00.r0"
    (run / "review.jsonl").write_text('{"label": "fi')  # somebody was killed while he wrote
    for label, note in (("odd", "hm"), ("hacked", "it <b>edits</b> the test")):
        assert main(["review", str(run), "--label", name, "--as", label, "--note", note, "--exclude"]) == 0
    capsys.readouterr()
    assert main(["review", str(run), "--export", str(tmp_path / "labels.jsonl")]) == 0
    labels = [json.loads(line) for line in (tmp_path / "labels.jsonl").read_text().splitlines()]
    assert [(x["label"], x["exclude"], bool(x["who"]), bool(x["time"])) for x in labels] == [("odd", True, True, True), ("hacked", True, True, True)]  # fmt: skip
    assert "hacked" in json.dumps(parts_of(["report", str(run), "--only", "review"], capsys))
    assert main(["report", str(run), "--only", "review", "--html", str(tmp_path / "r.html")]) == 0
    assert "it <b>edits" not in (tmp_path / "r.html").read_text()
    assert main(["review", str(run), "--label", "nobody", "--as", "odd"]) == 2
    assert "holds no rollout 'nobody'" in capsys.readouterr().err


def test_a_file_that_may_not_be_read_is_told(tmp_path: Path, capsys: Said) -> None:
    run = write_run(tmp_path)
    (run / "steps.jsonl").unlink()
    (run / "steps.jsonl").mkdir()
    assert "steps.jsonl: cannot be read" in json.dumps(parts_of(["report", str(run)], capsys)["summary"])
    assert main(["review", str(run)]) == 0
    assert "steps.jsonl: cannot be read" in capsys.readouterr().out


@pytest.mark.parametrize("options", [["--as", "fine"], ["--exclude"], ["--note", "why"]])
def test_a_label_without_a_rollout_is_refused(tmp_path: Path, capsys: Said, options: list[str]) -> None:
    assert main(["review", str(write_run(tmp_path)), *options]) == 2
    assert "name it with --label" in capsys.readouterr().err
