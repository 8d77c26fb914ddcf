"""Runs the OpenHands SDK's own tools and ours side by side; what they say goes to standard output, as JSON.

A program for the SDK's own Python, with `adapters/programs` on its path: it reads what to do from standard
input, as JSON. Used by `tests/real/test_openhands_tools.py`.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import openhands_tools
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.terminal import TerminalTool
from openhands_editor import MirrorEditor, SandboxFiles

asked = json.load(sys.stdin)
home, workspace = Path(asked["home"]), Path(asked["workspace"])
openhands_tools.WORKSPACE = str(workspace)
openhands_tools.act_inside(["env", "-C", str(workspace)], programs=asked["programs"], home=home)
state = SimpleNamespace(
    workspace=SimpleNamespace(working_dir=str(workspace)),
    agent=SimpleNamespace(llm=SimpleNamespace(vision_is_active=lambda: False)),
    env_observation_persistence_dir=None,
)


def prepare():
    shutil.rmtree(workspace, ignore_errors=True)
    for name, text in asked["files"].items():
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_bytes(text.encode("latin-1"))
    (workspace / "script.sh").chmod(0o755)
    (workspace / "link.py").symlink_to("cart.py")
    (workspace / "nowhere").symlink_to("missing.py")
    with (workspace / "big.txt").open("wb") as big:
        big.truncate(11 * 2**20)
    os.chdir(workspace)


def left():
    return {
        str(path.relative_to(workspace)): [oct(path.lstat().st_mode), path.read_bytes().decode("latin-1")]
        for path in sorted(workspace.rglob("*"))
        if path.is_file() and path.name != "big.txt"
    }


def told(tool, arguments):
    session = getattr(tool.executor, "_session", None)
    if session is not None and not session.is_running():
        session.terminal._wait_for_prompt()  # which the SDK asks for after each command, and may come late
    try:
        observation = tool(tool.action_type.model_validate(arguments))
    except Exception as error:  # noqa: BLE001 (it is compared)
        said = repr(error)
    else:
        parts = [part.model_dump() for part in observation.to_llm_content]
        said = [parts, observation.is_error, getattr(observation, "path", None)]
    return json.loads(re.sub("[a-z0-9_]{8}[.]tmp", "", json.dumps(said)))


def run(tool_class, steps):
    prepare()
    (tool,) = tool_class.create(
        state, **({"terminal_type": "subprocess"} if tool_class is TerminalTool else {})
    )
    said = [told(tool, step) for step in steps]
    tool.executor.close()
    return {"said": said, "left": left()}


def answered(answer, path):
    """What the editor says where the sandbox gives that answer, whatever it is asked."""
    files = SandboxFiles(["sh", "-c", 'cat >/dev/null; printf %s "$0"', answer])
    try:
        said = MirrorEditor(files, folder=home, workspace="/workspace")(command="view", path=path)
    except Exception as error:  # noqa: BLE001 (it is compared)
        return str(error)
    return said.content[0].text


print(  # noqa: T201 (this is the program's own output)
    json.dumps(
        {
            "lies": [answered(answer, "/workspace/x") for answer in asked["lies"]],
            "absent": [answered('{"is": "missing"}', path) for path in asked["absent"]],
            "outside": sorted(path.name for path in home.parent.iterdir()),
            "editor": [
                run(FileEditorTool, asked["editor"]),
                run(openhands_tools.SandboxFileEditor, asked["editor"]),
            ],
            "terminal": [
                run(TerminalTool, asked["terminal"]),
                run(openhands_tools.SandboxTerminal, asked["terminal"]),
            ],
            "description": [
                tool.create(state)[0].description
                for tool in (FileEditorTool, openhands_tools.SandboxFileEditor)
            ],
        }
    )
)
