"""The OpenHands SDK's tools tell the policy from a sandbox what they tell it on their own machine."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import lego_harness.adapters as adapters
from lego_harness.adapters.install import OPENHANDS, install

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

PROGRAMS = Path(adapters.__file__).parent / "programs"
COMPARE = Path(__file__).parents[1] / "support" / "openhands_compared.py"
FILES = {
    "cart.py": "def total(a, b):\n    return a - b\n",
    "twice.py": "x = 1\ny = 2\nx = 1\n",
    "latin.txt": "caf\xe9 na\xefve\n",
    "data.bin": "\x00\x01\x02\xff\xfe" * 40,
    "dos.txt": "a\r\nb\r\nc\r\n",
    "script.sh": "#!/bin/sh\necho hi\n",
    "empty": "",
    "deep/er/est.py": "pass\n",
    "deep/b.py": "b\n",
    ".hidden/secret": "s\n",
    "long.txt": "a line of text\n" * 3000,
}


def editor_steps(workspace: Path) -> list[dict[str, Any]]:
    """Every command on every kind of path, then what follows an edit."""
    at = {
        name: str(workspace / name) for name in (*FILES, "link.py", "nowhere", "big.txt", "deep", ".hidden")
    }
    views = [
        str(workspace),
        "/",
        *at.values(),
        str(workspace / "gone"),
        "cart.py",
        "../cart.py",
        "gone.py",
        "",
        "~",
    ]
    edit = {"command": "str_replace", "path": at["cart.py"], "old_str": "a - b", "new_str": "a + b  \n"}
    return [
        *({"command": "view", "path": path} for path in views[:1] + views[2:]),
        *(
            {"command": "view", "path": at["cart.py"], "view_range": span}
            for span in ([1, 1], [2, 9], [7, 8], [1])
        ),
        {"command": "view", "path": at["deep"], "view_range": [1, 2]},
        {"command": "view", "path": f"{workspace}/deep/../cart.py"},
        {"command": "view", "path": f"{workspace}/gone/../cart.py"},
        {"command": "create", "path": at["cart.py"], "file_text": "no\n"},
        {"command": "create", "path": at["nowhere"], "file_text": "a file in place of a link\n"},
        {"command": "create", "path": str(workspace / "new.py"), "file_text": "é\n"},
        {"command": "create", "path": str(workspace / "no/folder.py"), "file_text": "x\n"},
        {"command": "create", "path": at["cart.py"] + "/below", "file_text": "x\n"},
        {"command": "create", "path": str(workspace / "new2.py")},
        edit,
        edit,
        {**edit, "old_str": "a + b", "new_str": "a + b"},
        {**edit, "path": at["twice.py"], "old_str": "x = 1", "new_str": "x = 3"},
        {**edit, "path": at["script.sh"], "old_str": "hi", "new_str": "ho"},
        {**edit, "path": at["latin.txt"], "old_str": "na", "new_str": "NA"},
        {**edit, "path": at["latin.txt"], "old_str": "NA", "new_str": "→"},
        {**edit, "path": at["dos.txt"], "old_str": "b", "new_str": "B"},
        {**edit, "path": at["link.py"], "old_str": "total", "new_str": "sum"},
        {**edit, "path": at["data.bin"], "old_str": "x", "new_str": "y"},
        {**edit, "path": at["deep"], "old_str": "x", "new_str": "y"},
        {"command": "str_replace", "path": at["cart.py"], "old_str": "return"},
        {"command": "insert", "path": at["cart.py"], "insert_line": 1, "new_str": "    # sum"},
        {"command": "insert", "path": at["cart.py"], "insert_line": 99, "new_str": "x"},
        {"command": "insert", "path": at["cart.py"], "new_str": "x"},
        *[{"command": "undo_edit", "path": at["cart.py"]}] * 4,
        {"command": "undo_edit", "path": at["twice.py"]},
        {"command": "view", "path": at["cart.py"]},
    ]


# Without here-documents: the SDK's own answer to them depends on when it looks.
TERMINAL = [
    {"command": command}
    for command in (
        "pwd",
        "cat cart.py",
        "ls /nonexistent",
        "(exit 3)",
        "cd deep && pwd",
        "pwd; export NAME=value",
        "echo $NAME $PAGER $GIT_PAGER $TERM $AI_AGENT; echo 'é'",
        "for i in 1 2 3; do\n  echo $i\ndone",
        "echo " + "x" * 300,
        "seq 1 30000",
        "printf 'a\\tb\\r\\nc\\n'",
        "echo one; echo two >&2",
        "",
        "echo a\necho b",
        '["a", "list"]',
        "read line; echo got $line",
    )
]
TERMINAL[-1]["timeout"] = "1"
TERMINAL += [
    {"command": "echo again"},
    {"command": "typed", "is_input": True},
    {"command": "sleep 100", "timeout": "1"},
    {"command": "C-c", "is_input": True},
    {"command": "echo after", "reset": True},
]


LIES = [
    "",
    "{}",
    "[]",
    "nonsense",
    '{"is": "folder", "entries": [["../../escaped", true]]}',
    '{"is": "folder", "entries": [["a/../../../escaped", false]]}',
    '{"is": "folder", "entries": [["", true]]}',
    '{"is": "file", "size": -1, "mtime_ns": 0, "data": ""}',
    '{"is": "file", "size": 1, "mtime_ns": 0, "data": "!"}',
    '{"is": "file", "size": 99999999999999, "mtime_ns": 0, "data": ""}',
]
ABSENT = [
    "/etc/passwd",
    "/../../../../../../../../etc/passwd",
    "/workspace/../../../../../../../etc/passwd",
    "../../../../../../../../etc/passwd",
    " /etc/passwd",
    "~",
    "~root",
    "~/../../etc/passwd",
]
"""Each would be there, were it looked for on the host."""


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    install(OPENHANDS)
    home, workspace = (
        tmp_path_factory.mktemp("host") / "home",
        tmp_path_factory.mktemp("sandbox") / "workspace",
    )
    home.mkdir()
    asked = {
        "home": str(home),
        "workspace": str(workspace),
        "programs": str(PROGRAMS),
        "files": FILES,
        "editor": editor_steps(workspace),
        "terminal": TERMINAL,
        "lies": LIES,
        "absent": ABSENT,
    }
    result = subprocess.run(
        [str(OPENHANDS.folder / "bin" / "python"), "-B", str(COMPARE)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=600,
        env={
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYTHONPATH": str(PROGRAMS),
            "INPUTRC": str(PROGRAMS / "inner_inputrc"),
            "HOME": str(home),
            "TMPDIR": str(home),
            "LANG": "C.UTF-8",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "OPENHANDS_SUPPRESS_BANNER": "1",
            "LOG_LEVEL": "ERROR",
        },
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return {**json.loads(result.stdout.splitlines()[-1]), "editor_steps": asked["editor"]}


def test_every_edit_is_answered_as_the_sdk_answers_it(compared: dict[str, Any]) -> None:
    native, ours = compared["editor"]
    for step, theirs, mine in zip(compared["editor_steps"], native["said"], ours["said"], strict=True):
        assert mine == theirs, step


def test_every_edit_leaves_the_files_that_the_sdk_leaves(compared: dict[str, Any]) -> None:
    native, ours = compared["editor"]
    assert ours["left"] == native["left"]
    assert "a + b" in "".join(text for _, text in native["left"].values())


def test_every_command_is_answered_as_the_sdk_answers_it(compared: dict[str, Any]) -> None:
    native, ours = compared["terminal"]
    for step, theirs, mine in zip(TERMINAL, native["said"], ours["said"], strict=True):
        assert mine == theirs, step


def test_the_policy_is_told_the_same_about_the_editor(compared: dict[str, Any]) -> None:
    theirs, ours = compared["description"]
    assert ours == theirs
    assert os.sep + "workspace" in ours


def test_a_sandbox_that_lies_about_its_files_is_not_believed(compared: dict[str, Any]) -> None:
    for lie, said in zip(LIES, compared["lies"], strict=True):
        assert "The sandbox did not answer" in said, lie
    assert compared["outside"] == ["home"]


def test_no_path_is_looked_for_on_the_host(compared: dict[str, Any]) -> None:
    for path, said in zip(ABSENT, compared["absent"], strict=True):
        assert "does not exist" in said or said.endswith("The path should be an absolute path."), (path, said)
