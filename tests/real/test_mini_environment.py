"""mini-swe-agent's plug-in shows the program what its own local environment shows it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import lego_harness.adapters as adapters
from lego_harness.adapters.install import MINI_SWE, install

pytestmark = pytest.mark.slow

PROGRAMS = Path(adapters.__file__).parent / "programs"
COMPARE = """
import json, sys
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import Submitted
from sandbox_environment import SandboxEnvironment

def outcome(environment, command):
    try:
        return environment.execute({"command": command})
    except Submitted as submitted:
        return submitted.messages

settings = {"timeout": 3, "env": {"PAGER": "cat -v"}}
pairs = []
for command in json.load(sys.stdin):
    environments = LocalEnvironment(**settings), SandboxEnvironment(prefix=[], **settings)
    pairs.append([outcome(environment, command) for environment in environments])
variables = SandboxEnvironment(prefix=[], **settings).get_template_vars()
print(json.dumps([pairs, variables]))
"""
COMMANDS = [
    "echo out; echo err >&2; exit 3",
    "echo $PAGER; pwd",
    "printf 'a\\r\\nb\\rc\\377\\n'",
    "false",
    "sleep 5 & echo started",
    "echo early; sleep 30",
    "echo before\0after",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo my answer",
    "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; exit 1",
    "cat",
]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[list[object]], dict[str, object]]:
    install(MINI_SWE)
    result = subprocess.run(
        [str(MINI_SWE.folder / "bin" / "python"), "-c", COMPARE],
        input=json.dumps([*COMMANDS, "head -c 3000000 /dev/zero | tr '\\0' x; echo END"]),
        capture_output=True,
        text=True,
        timeout=120,
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(PROGRAMS),
            "MSWEA_SILENT_STARTUP": "1",
            "HOME": str(tmp_path_factory.mktemp("home")),
        },
        check=False,
    )
    assert result.returncode == 0, result.stderr
    pairs, variables = json.loads(result.stdout)
    return pairs, variables


def test_every_kind_of_command_is_reported_as_locally(compared) -> None:
    pairs, _ = compared
    for command, (local, ours) in zip(COMMANDS, pairs, strict=False):
        assert ours == local, command


def test_output_without_end_is_cut_in_the_middle(compared) -> None:
    pairs, _ = compared
    _, ours = pairs[-1]
    assert len(ours["output"]) < 500_000
    assert ours["output"].startswith("xxx")
    assert ours["output"].endswith("xxxEND\n")


def test_the_prompt_s_system_information_is_the_same_on_every_host(compared) -> None:
    _, variables = compared
    assert (variables["system"], variables["release"]) == ("Linux", "sandbox")
    assert "PATH" not in variables
