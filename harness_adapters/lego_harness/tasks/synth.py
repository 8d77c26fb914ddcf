"""Generated repair tasks: a one-line function computes with the wrong operator.

Owns the content of a task and its folder in Harbor's layout (task.toml, instruction.md,
environment/, tests/, solution/). Invariants: the same seed gives the same bytes; names and
sentence frames of the two splits are disjoint; the initial operator is never the right one, and
the hidden tests tell all operators apart, so that untouched scores 0 and the solution scores 1.
Reading folders back is `folder.py`'s work.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lego_harness.tasks.synth_words import OPERATIONS, VOCABULARIES, Operation, Vocabulary

SHAPES = (
    "def {function}({left}, {right}):\n    return {left} {operator} {right}\n",
    "def {function}({left}, {right}):\n    result = {left} {operator} {right}\n    return result\n",
    '"""Arithmetic of {module}."""\n\n\ndef {function}({left}, {right}):\n    return {left} {operator} {right}\n',
)
CASES = ((7, 3), (12, 5), (9, 2), (-8, 3))
"""Arguments of the hidden tests: every operation gives another value for each pair."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SynthTask:
    """One task before it is written.

    >>> next(generate("train", seed=0)).instruction
    'Change cart.py so that …'
    """

    instruction: str
    file: str
    """Name of the module the agent has to repair, e.g. `cart.py`."""
    function: str
    source: str
    """Initial content of `file`."""
    solved: str
    """Content of `file` with the right operator."""
    wanted: Operation
    initial: Operation


def generate(split: str, *, seed: int) -> Iterator[SynthTask]:
    """Endless tasks of a split; operations come in equal shares."""
    rng = random.Random(f"{split}/{seed}")
    while True:
        for wanted in rng.sample(OPERATIONS, len(OPERATIONS)):
            yield make_task(rng, VOCABULARIES[split], wanted)


def make_task(rng: random.Random, words: Vocabulary, wanted: Operation) -> SynthTask:
    """One task from a vocabulary that asks for an operation."""
    left, right = rng.sample(words.arguments, 2)
    module = rng.choice(words.files)
    names = {
        "function": f"{rng.choice(words.verbs)}_{rng.choice(words.nouns)}",
        "left": left,
        "right": right,
        "module": module,
        "file": f"{module}.py",
    }
    initial = rng.choice([op for op in OPERATIONS if op != wanted])
    shape = rng.choice(SHAPES)
    return SynthTask(
        instruction=rng.choice(words.frames).format(word=wanted.word, **names),
        file=names["file"],
        function=names["function"],
        source=shape.format(operator=initial.operator, **names),
        solved=shape.format(operator=wanted.operator, **names),
        wanted=wanted,
        initial=initial,
    )


def write_pool(root: Path, *, num_train: int, num_heldout: int, seed: int) -> list[Path]:
    """Write task folders `train-0000…` and `heldout-0000…` under `root`; returns their paths."""
    folders: list[Path] = []
    for split, count in (("train", num_train), ("heldout", num_heldout)):
        tasks = generate(split, seed=seed)
        folders += [write_task(root / f"{split}-{i:04d}", next(tasks), split=split) for i in range(count)]
    return folders


def write_task(folder: Path, task: SynthTask, *, split: str) -> Path:
    """Write one task folder; existing files are replaced."""
    for name, text in _files(task, split).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755 if path.suffix == ".sh" else 0o644)
    return folder


def _files(task: SynthTask, split: str) -> dict[str, str]:
    return {
        "task.toml": _task_toml(task, split),
        "instruction.md": task.instruction + "\n",
        "environment/Dockerfile": "FROM python:3.12-slim\nWORKDIR /workspace\nCOPY repo/ /workspace/\n",
        f"environment/repo/{task.file}": task.source,
        "tests/test.sh": _test_script(),
        "tests/test_hidden.py": _hidden_tests(task),
        "solution/solve.sh": f"#!/bin/bash\nset -e\ncat > {task.file} <<'END'\n{task.solved}END\n",
    }


def _task_toml(task: SynthTask, split: str) -> str:
    return f"""version = "1.0"

[metadata]
author_name = "lego_harness.tasks.synth"
difficulty = "easy"
category = "repair"
split = "{split}"
tags = ["synth", "{task.wanted.word}"]

[verifier]
timeout_sec = 60.0

[agent]
timeout_sec = 600.0
"""


def _test_script() -> str:
    return """#!/bin/bash
# Hidden tests against the workspace; they import the module from the current folder.
here="$(cd "$(dirname "$0")" && pwd)"
cd "${WORKSPACE:-/workspace}" || exit 2
python3 -m pytest -q -p no:cacheprovider --rootdir="$here" "$here"
verdict=$?
if [ -d /logs/verifier ]; then
  [ "$verdict" -eq 0 ] && echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt
fi
exit "$verdict"
"""


def _hidden_tests(task: SynthTask) -> str:
    cases = "\n".join(f"    ({a}, {b}, {_value(task.wanted, a, b)})," for a, b in CASES)
    return f'''"""Hidden tests: never visible to the agent."""

import importlib.util
from pathlib import Path

import pytest

CASES = [
{cases}
]


def load():
    spec = importlib.util.spec_from_file_location("workspace_module", Path.cwd() / "{task.file}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(("left", "right", "expected"), CASES)
def test_{task.function}(left, right, expected):
    assert load().{task.function}(left, right) == expected
'''


def _value(operation: Operation, left: int, right: int) -> int:
    return {"+": left + right, "-": left - right, "*": left * right, "//": left // right}[operation.operator]
