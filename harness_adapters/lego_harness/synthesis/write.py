"""A fault as a task folder in Harbor's layout.

    environment/repo   the project with the fault, without the test files that reveal it
    tests              those files, what is next to them and no test, and the lists of tests that decide
    solution           the file as its authors published it

Invariant: what the agent is given contains neither the tests that decide nor the original file. Proves nothing.
"""

from __future__ import annotations

import json
from pathlib import Path

from lego_harness.grading.listed import FILE
from lego_harness.sandbox.workspace import write_files
from lego_harness.synthesis.project import Project
from lego_harness.synthesis.screen import Found
from lego_harness.tasks.folder import is_test_file
from lego_harness.text import one_line

_SHOWN = 3
_SOLVE = """#!/bin/bash
set -e
cp "$(cd "$(dirname "$0")" && pwd)/{name}" {path}
"""
_NAME = "repaired"


def write_task(folder: Path, project: Project, found: Found, *, split: str) -> None:
    """Write one task folder, which must not exist yet."""
    hidden = {f"{project.tests}/{name}" for name in found.test_files}
    repo = {name: data for name, data in project.files.items() if name not in hidden}
    repo[found.fault.path] = found.source
    lists = {"FAIL_TO_PASS": found.fail_to_pass, "PASS_TO_PASS": found.pass_to_pass}
    tests = {name: data for name, data in project.test_files().items() if _is_hidden(name, found)}
    parts = {
        "environment/repo/": repo,
        "tests/": {**tests, FILE: json.dumps(lists, indent=1).encode()},
        "solution/": {
            "solve.sh": _SOLVE.format(name=_NAME, path=found.fault.path).encode(),
            _NAME: project.files[found.fault.path],
        },
        "": {
            "instruction.md": _instruction(project, found).encode(),
            "task.toml": _toml(project, found, split).encode(),
        },
    }
    write_files(folder, {f"{at}{name}": data for at, files in parts.items() for name, data in files.items()})


def _is_hidden(name: str, found: Found) -> bool:
    return name in found.test_files or not is_test_file(Path(name))


def _instruction(project: Project, found: Found) -> str:
    failing = "\n".join(
        f"- {project.tests}/{test}: {_message(found.messages[test])}" for test in found.fail_to_pass[:_SHOWN]
    )
    more = len(found.fail_to_pass) - _SHOWN
    others = f"\n- and {more} more\n" if more > 0 else "\n"
    return f"""This folder holds {project.pin.name} {project.pin.version}. A change has broken {found.fault.path}:

{failing}{others}
Find the fault and repair {found.fault.path}. These tests are not in this folder; your work is judged by them and by
the other tests of their files. Change no tests.
"""


def _message(said: str) -> str:
    """The last part of `path:line: message`, which is all the runner keeps."""
    return one_line(said.partition(": ")[2] or said or "fails", limit=160).removeprefix("E ")


def _toml(project: Project, found: Found, split: str) -> str:
    tags = ["synth", project.pin.name, found.fault.kind]
    return f"""version = "1.0"

[metadata]
author_name = "lego_harness.synthesis"
category = "repair"
split = "{split}"
tags = {json.dumps(tags)}

[agent]
timeout_sec = 1800.0

[verifier]
timeout_sec = 60.0
"""
