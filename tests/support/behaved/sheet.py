"""Trajectories as plain text for a person who labels them, and the definitions to label by.

    python -m tests.support.behaved.sheet FOLDER [RECORDED]

RECORDED holds `*.jsonl.gz`; the kept ones are meant where it is not said.

Owns no judgement: nothing here is computed from what the agent did. The definitions are the docstrings of
`lego_tui.behaviours.table9`.
"""

from __future__ import annotations

import ast
import gzip
import inspect
import itertools
import json
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lego_tui.behaviours import table9

_COLOURS = re.compile(r"\x1b\[[\d;?]*[a-zA-Z]")
DATA = Path(__file__).parents[2] / "data" / "behaviours"


def trajectories(recorded: Path = DATA) -> list[dict[str, Any]]:
    """Every kept trajectory, by name."""
    texts = (gzip.decompress(path.read_bytes()).decode() for path in sorted(recorded.glob("*.jsonl.gz")))
    return [json.loads(line) for text in texts for line in text.splitlines()]


def definitions() -> str:
    """The class's docstring and that of each field."""
    tree = ast.parse(inspect.getsource(table9.Behaviour))
    (body,) = (node.body for node in tree.body if isinstance(node, ast.ClassDef))
    said = [f"{inspect.getdoc(table9.Behaviour)}\n"]
    for field, text in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
        ):
            meant = textwrap.indent(inspect.cleandoc(str(text.value.value)), "    ")
            said.append(f"{ast.unparse(field)}\n{meant}\n")
    return "\n".join(said)


def shown(trajectory: dict[str, Any]) -> str:
    """One trajectory."""
    head = [f"{key}: {trajectory[key]}" for key in ("id", "harness", "task", "stop_reason", "reward")]
    return "\n".join([*head, "", *(line for message in trajectory["messages"] for line in _shown(message))])


def _shown(message: dict[str, Any]) -> Iterator[str]:
    branch = f" (branch {message['branch']})" if "branch" in message else ""
    answers = f" to {message['tool_call_id'][-6:]}" if "tool_call_id" in message else ""
    error = " [marked as an error]" if message.get("is_error") else ""
    yield f"--- {message['role']}{branch}{answers}{error}"
    if "content" in message:
        content = message["content"]
        yield _COLOURS.sub(
            "", content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        )
    for call in message.get("tool_calls", ()):
        function = call["function"]
        yield f"CALL {call.get('id', '')[-6:]} {function['name']}"
        yield from _arguments(function["arguments"])
    yield ""


def _arguments(arguments: Any) -> Iterator[str]:
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            yield f"    (not JSON) {arguments}"
            return
    for key, value in arguments.items() if isinstance(arguments, dict) else [("", arguments)]:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"    {key}: " + text.replace("\n", "\n        ")


def main(folder: Path, recorded: Path = DATA) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "DEFINITIONS.txt").write_text(definitions(), encoding="utf-8")
    for trajectory in trajectories(recorded):
        (folder / f"{trajectory['id']}.txt").write_text(shown(trajectory), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
