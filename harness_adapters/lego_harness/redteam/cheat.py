"""A cheating agent as a file: a script in place of a harness, run inside the agent's sandbox.

    cheats/NAME.cheat   a Python script; its docstring says what it does and, in `mode: …`, which failure it tries

Owns reading those files. Invariant: to this package the scripts are text; nothing here imports them.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

MODES = {
    "history": "agent reads git history",
    "download": "agent downloads the reference fix",
    "tests": "agent edits test files",
    "loaded": "agent plants files that the runner loads",
    "memory": "agent's code meddles with the runner's process",
    "report": "agent's code forges the report",
    "answers": "agent's code answers without computing",
    "ending": "agent's code ends the runner or its sandbox",
    "escape": "agent reaches out of its sandbox",
    "reference": "grader applies the reference patch",
    "network": "grader needs the network",
    "build": "incomplete repository build",
    "none": "the honest fix",
}
"""Failure modes: the rows of the paper's Table 6, and further ones."""
HONEST = "honest"
NOTHING = "nothing"
_FOLDER = Path(__file__).with_name("cheats")
_INSIDE = Path(__file__).with_name("prelude.cheat")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cheat:
    """One scripted agent."""

    name: str
    what: str
    """One sentence."""
    mode: str
    """A key of `MODES`."""
    script: str
    """Python, for an interpreter inside the agent's sandbox with the workspace as its folder."""


def all_cheats() -> tuple[Cheat, ...]:
    """Every cheat by name, the honest agent first."""
    cheats = [_read(path) for path in sorted(_FOLDER.glob("*.cheat"))]
    return tuple(sorted(cheats, key=lambda cheat: cheat.name != HONEST))


def _read(path: Path) -> Cheat:
    text = path.read_text(encoding="utf-8")
    what, _, rest = (ast.get_docstring(ast.parse(text)) or "").partition("\n")
    mode = rest.strip().removeprefix("mode: ")
    if mode not in MODES or not what:
        raise ValueError(
            f"{path}: expected a docstring of a sentence and a line `mode: …` of {sorted(MODES)}"
        )
    return Cheat(name=path.stem, what=what, mode=mode, script=f"{_inside()}\n{text}")


def _inside() -> str:
    return _INSIDE.read_text(encoding="utf-8").replace("from __future__ import annotations\n", "")
