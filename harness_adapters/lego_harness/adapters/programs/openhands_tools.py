"""A plug-in for the OpenHands SDK: its terminal and its file editor act inside a sandbox.

The SDK's own tools, registered again under their own names with executors of ours, so that prompts,
schemas, limits and observations stay the SDK's. The terminal is the SDK's terminal, whose shell is a script
that leads inside; the editor is the SDK's editor, which works on a mirror of the one path it was called
with. Bracketed paste is off inside, so that output reads as it does from the SDK's tmux terminal, for which
images lack the program. Invariant: nothing that the model says is run on the host, and no path that it says
is opened there; answers from inside are untrusted. Sub-agents find the same tools: they go by name.
"""

# pyright: basic, reportMissingImports=false
# The SDK is installed in the harness's Python, not in ours.

from __future__ import annotations

import os
import secrets
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

from openhands.sdk.tool import register_tool
from openhands.tools.file_editor import FileEditorTool
from openhands.tools.terminal import TerminalTool
from openhands.tools.terminal.constants import CMD_OUTPUT_PS1_END
from openhands.tools.terminal.impl import TerminalExecutor
from openhands.tools.terminal.terminal import TerminalInterface
from openhands_editor import MirrorEditor, SandboxFiles

WORKSPACE = "/workspace"
_VARIABLES = ("PS1", "PS2", "TERM", "PAGER", "GIT_PAGER", "AI_AGENT")
"""What the SDK sets for its shell."""
_START_LIMIT_S = 60.0


class Inside:
    """Where this process's one rollout acts; set before its conversation begins."""

    prefix: ClassVar[list[str]]
    """The argv that leads into the sandbox."""
    programs: ClassVar[str]
    """Where `inner_terminal.py`, `inner_inputrc` and `inner_files.py` lie in there."""
    home: ClassVar[Path]
    """The rollout's own folder on the host."""


class SandboxTerminal(TerminalTool):
    """The SDK's terminal tool."""

    name = TerminalTool.name

    @classmethod
    def create(cls, conv_state: Any, **settings: Any) -> Sequence[TerminalTool]:
        return super().create(_no_state(conv_state, "/"), executor=_Terminal(), **settings)


class SandboxFileEditor(FileEditorTool):
    """The SDK's file editor tool."""

    name = FileEditorTool.name

    @classmethod
    def create(cls, conv_state: Any) -> Sequence[FileEditorTool]:
        (tool,) = super().create(_no_state(conv_state, WORKSPACE))
        tool.executor.editor = MirrorEditor(
            SandboxFiles([*Inside.prefix, *_python("inner_files.py")]),
            folder=Inside.home,
            workspace=WORKSPACE,
        )
        return [tool]

    def declared_resources(self, action: Any) -> Any:
        """One lock for all files: to tell two paths apart would mean to look for links on the host."""
        return super().declared_resources(action.model_copy(update={"path": "/"}))


def act_inside(prefix: Sequence[str], *, programs: str, home: Path) -> None:
    """Let every tool of this process act in one sandbox."""
    Inside.prefix, Inside.programs, Inside.home = list(prefix), programs, home
    _hide_tmux(home)
    register_tool(SandboxTerminal.name, SandboxTerminal)
    register_tool(SandboxFileEditor.name, SandboxFileEditor)


class _Terminal(TerminalExecutor):
    """The SDK's terminal with a shell inside, used only once that shows its prompt.

    The SDK waits one second, and would take a later prompt for the end of its first command.
    """

    def __init__(self) -> None:
        shell = Inside.home / "shell"
        if not shell.exists():
            _write_script(shell, _shell())
        super().__init__(working_dir="/", terminal_type="subprocess", shell_path=str(shell))
        _await_prompt(self.session.terminal)

    def _reset_single_session(self) -> Any:
        observation = super()._reset_single_session()
        _await_prompt(self.session.terminal)
        return observation


def _shell() -> str:
    """Stays the parent of what it runs: the SDK starts it from a thread that is about to end."""
    prefix, bash = shlex.join(Inside.prefix), shlex.join([*_python("inner_terminal.py"), "bash"])
    variables = [f'{name}="${name}"' for name in _VARIABLES]
    variables.append(shlex.quote(f"INPUTRC={Inside.programs}/inner_inputrc"))
    return f'stty raw -echo\n{prefix} env {" ".join(variables)} {bash} "$@"\nexit $?\n'


def _await_prompt(terminal: TerminalInterface) -> None:
    """Until everything that was typed has been read: commands end in the order they were typed in."""
    token = secrets.token_hex(4)
    terminal.send_keys(f"printf '%s%s\\n' ready- {token}")
    deadline = time.monotonic() + _START_LIMIT_S
    while time.monotonic() < deadline:
        screen = terminal.read_screen()
        _, ready, prompt = screen.rpartition(f"ready-{token}")
        if ready and prompt.rstrip().endswith(CMD_OUTPUT_PS1_END.rstrip()):
            terminal.clear_screen()
            return
        time.sleep(0.01)
    raise RuntimeError(f"no shell in the sandbox within {_START_LIMIT_S:.0f} s; it said: {screen[-500:]!r}")


def _hide_tmux(home: Path) -> None:
    """Where the SDK finds tmux, a reset of its terminal would open one on the host."""
    (home / "bin").mkdir()
    _write_script(home / "bin" / "tmux", "exit 1\n")
    os.environ["PATH"] = f"{home / 'bin'}:{os.environ['PATH']}"


def _write_script(path: Path, lines: str) -> None:
    path.write_text(f"#!/bin/sh\n{lines}")
    path.chmod(0o700)


def _no_state(conv_state: Any, folder: str) -> Any:
    """As much of the conversation's state as tools are made from, with a folder of the sandbox."""
    return SimpleNamespace(
        workspace=SimpleNamespace(working_dir=folder),
        agent=conv_state.agent,
        env_observation_persistence_dir=None,
    )


def _python(program: str) -> list[str]:
    return ["python3", "-I", "-S", "-B", f"{Inside.programs}/{program}"]
