"""Every command that is told where to write ends alike where it cannot: one line, exit 3, nothing half-written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from lego_control.cli import lego, main
from lego_core.store import RunWriter
from tests.support.repair_task import write_files
from tests.support.runs import heldout, recipe, step, trajectory

WRITTEN = {"--out", "--html", "--md", "--export", "--junit", "--summary"}
"""Options that say where to write; `--json` is one of them where it takes a file."""

COMMANDS = (
    "report run --html",
    "report run --md",
    "compare run run --html",
    "compare run run --md",
    "review run --export",
    "check run --junit",
    "check run --json",
    "check run --summary",
    "gate --candidate run --baseline run --junit",
    "gate --candidate run --baseline run --json",
    "gate --candidate run --baseline run --summary",
    "validate bad.toml --junit",
    "validate bad.toml --json",
    "validate bad.toml --summary",
    "export run --format jsonl --out",
    "export run --format atif --out",
    "export run --format otel --out",
    "export run --out",
    "record mini-swe-agent --sandbox bubblewrap --out",
    "proxy --upstream http://127.0.0.1:1 --model . --out",
    "tasks --out",
    "tasks select pool --run run --low 0 --high 1 --out",
    "tasks import pool --out",
    "tasks synth xmltodict --out",
    "tasks audit pool --out",
    "demo-runs",
    pytest.param("tiny-model --sandbox bubblewrap --out", marks=pytest.mark.slow),
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run, a pool, a recipe that is wrong, and a file where a folder would have to be."""
    monkeypatch.chdir(tmp_path)
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.append_trajectory(trajectory("s00001.g00.r0", task_id="train-0000"), step=1)
        writer.append_step(step(1))
        writer.append_heldout(heldout(1))
    folder = writer.layout.root.rename("run") / "checkpoints" / "00001"
    folder.mkdir(parents=True)
    write_files(Path("pool/train-0000"))
    Path("bad.toml").write_text("[trian]\n")
    Path("file").touch()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_place_that_cannot_be_written_is_one_line_and_exit_3(
    command: str, capfd: pytest.CaptureFixture[str]
) -> None:
    before = sorted(Path().rglob("*"))
    assert main([*command.split(), "file/x.jsonl"]) == 3
    told = capfd.readouterr().err.splitlines()
    assert told[-1].startswith("lego: ")
    assert "file/x.jsonl" in told[-1]
    assert "Traceback" not in "".join(told)
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize("command", [c for c in COMMANDS if isinstance(c, str) and c.startswith(("report", "review", "check"))])  # fmt: skip
def test_a_folder_where_a_file_belongs_is_the_same(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("folder").mkdir()
    assert main([*command.split(), "folder"]) == 3
    assert "folder: cannot be written: Is a directory" in capsys.readouterr().err


@pytest.mark.parametrize(("command", "name"), [("review run --label s00001.g00.r0 --as fine", "review.jsonl"), ("note run seen", "control")])  # fmt: skip
def test_a_run_that_cannot_be_added_to_is_the_same(command: str, name: str) -> None:
    if name == "control":
        (Path("run") / name).touch()
    else:
        (Path("run") / name).mkdir()
    assert main(command.split()) == 3


def test_no_command_that_writes_is_forgotten() -> None:
    tried = [str(c if isinstance(c, str) else c.values[0]).split() for c in COMMANDS]
    for *path, option in _written(lego, ()):
        assert any(words[: len(path)] == path and words[-1] == option for words in tried), (path, option)


def _written(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The words of every command and, last, of each of its options that says where to write."""
    for option in command.params:
        is_flag = getattr(option, "is_flag", False)
        for name in option.opts:
            if name in WRITTEN or (name == "--json" and not is_flag):
                yield *path, name
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from _written(inner, (*path, name))
