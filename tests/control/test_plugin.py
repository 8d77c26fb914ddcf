"""The plugin as files: what it may start, what it lets a shell do, and that the pinned program accepts it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lego_harness.adapters.install import CLAUDE_CODE, install

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "control_plane" / "plugin"
SKILLS = {"prepare-data", "validate-run", "train", "monitor-run", "review-trajectories"}
TOOLS = {tool["name"]: tool for tool in json.loads((Path(__file__).parent / "tools_list.json").read_text())}
GUARD = PLUGIN / "hooks" / "spare-training"


def front_matter(path: Path) -> dict[str, str]:
    _, head, _ = path.read_text().split("---\n", 2)
    return dict(line.split(": ", 1) for line in head.strip().splitlines())


def test_there_are_the_five_skills_of_the_paper() -> None:
    found = {path.parent.name: front_matter(path) for path in PLUGIN.glob("skills/*/SKILL.md")}
    assert set(found) == SKILLS
    assert all(head["name"] == folder and len(head["description"]) < 500 for folder, head in found.items())


def test_the_analyst_has_reading_tools_only_by_their_full_names() -> None:
    tools = front_matter(PLUGIN / "agents" / "trajectory-analyst.md")["tools"].split(", ")
    names = [re.fullmatch(r"mcp__plugin_lego_ops__(\w+)", tool) for tool in tools]
    assert all(names)
    assert all(TOOLS[match[1]]["annotations"]["readOnlyHint"] for match in names if match)


def test_the_monitors_file_is_a_bare_list_of_programs_that_are_there() -> None:
    """claude-code#52245: an object there is silently never armed."""
    (monitor,) = json.loads((PLUGIN / "monitors" / "monitors.json").read_text())
    assert monitor["when"] == "on-skill-invoke:monitor-run"
    for program in (
        "monitors/transitions",
        "hooks/digest",
        "hooks/spare-training",
        "bin/lego-mcp",
        "bin/find-lego",
    ):
        assert os.access(PLUGIN / program, os.X_OK)


def fake_lego(folder: Path, *answers: str) -> dict[str, str]:
    """The environment in which `lego` gives these answers in turn, the last again and again; `!` is a failure."""
    for number, answer in enumerate(answers):
        (folder / f"answer-{number}").write_text(answer)
    program = folder / "lego"
    program.write_text(
        f"""#!/bin/sh
cd {folder}
number=$(cat count 2>/dev/null || echo 0)
[ -f "answer-$((number + 1))" ] && echo $((number + 1)) > count
[ "$(cat "answer-$number")" = "!" ] && exit 3
cat "answer-$number"
"""
    )
    program.chmod(0o755)
    return {"PATH": os.environ["PATH"], "LEGO_COMMAND": str(program), "CLAUDE_PROJECT_DIR": str(folder)}


NO_RUN = "no run in runs; lego quickstart makes one, lego demo-runs DIR writes examples\n"


def test_a_monitor_tells_changes_of_state_and_no_look_that_failed(tmp_path: Path) -> None:
    first, last = "running       1/2     0.100  a.b\n", "finished      2/2     0.200  a.b\n"
    env = fake_lego(tmp_path, NO_RUN, first, "!", NO_RUN, first, last)
    monitor = PLUGIN / "monitors" / "transitions"
    with subprocess.Popen(
        [str(monitor)], env={**env, "LEGO_MONITOR_EVERY_S": "0"}, stdout=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "run a.b is now finished\n"
        program.kill()


@pytest.mark.parametrize(("answer", "is_told"), [(NO_RUN, False), ("running 1/2 a\n", True), ("!", False)])
def test_a_session_is_told_of_runs_where_there_are_some(tmp_path: Path, answer: str, is_told: bool) -> None:
    (tmp_path / "runs").mkdir()
    done = subprocess.run(
        [str(PLUGIN / "hooks" / "digest")],
        env=fake_lego(tmp_path, answer),
        capture_output=True,
        text=True,
        check=True,
    )
    assert bool(done.stdout) is is_told


def guard(command: str) -> str:
    told = json.dumps({"tool_name": "Bash", "tool_input": {"command": command}})
    done = subprocess.run(
        [sys.executable, "-S", str(GUARD)], input=told, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] if done.stdout else "allow"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("kill 4242", "deny"),
        ("kill -9 $(pgrep -f lego_core.launch)", "deny"),
        ("pkill -f vllm", "deny"),
        ("cd runs && killall python", "deny"),
        ("/bin/kill -TERM 1", "deny"),
        ("python -c 'import os; os.kill(1, 9)'", "deny"),
        ("scancel 77  # the training job", "deny"),
        ("ray stop --force", "deny"),
        ("docker compose -f x stop trainer-run", "deny"),
        ("rm runs/a/writer.lock", "deny"),
        ("kill -0 4242\nkill 4242", "deny"),
        ("kill -0\nkill 4242", "deny"),
        ("kill -0 $(kill 4242)", "deny"),
        ("kill -l `kill 4242`", "deny"),
        ("kill -0 4242", "allow"),
        ("kill -0 $PID", "allow"),
        ("ls runs", "allow"),
        ("grep -r skill docs", "allow"),
        ("lego stop runs/a --why asked", "allow"),
    ],
)
def test_the_shell_cannot_end_training_in_haste(command: str, verdict: str) -> None:
    assert guard(command) == verdict


@pytest.mark.parametrize("text", ["", "[]", '{"tool_input": {}}', "\x00"])
def test_a_hook_that_is_asked_nonsense_says_nothing(text: str) -> None:
    done = subprocess.run(
        [sys.executable, "-S", str(GUARD)], input=text, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_without_a_lego_command_the_launcher_says_what_to_do(tmp_path: Path) -> None:
    alone = tmp_path / "plugin" / "bin"
    alone.mkdir(parents=True)
    for program in ("find-lego", "lego-mcp"):
        (alone / program).write_text((PLUGIN / "bin" / program).read_text())
        (alone / program).chmod(0o755)
    done = subprocess.run(
        [alone / "lego-mcp", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 3
    assert "make setup" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("folder", [PLUGIN, ROOT], ids=["plugin", "marketplace"])
def test_the_pinned_program_accepts_it_strictly(folder: Path, tmp_path: Path) -> None:
    install(CLAUDE_CODE)
    (claude,) = CLAUDE_CODE.folder.glob("node_modules/@anthropic-ai/claude-code-linux-*/claude")
    done = subprocess.run(
        [claude, "plugin", "validate", "--strict", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
