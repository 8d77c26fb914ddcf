"""`lego tasks synth` makes tasks of real projects: sound, and hidden from who has to solve them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from lego_control.cli import main
from lego_harness.redteam.cheat import all_cheats
from lego_harness.redteam.run import Attempt, Result, attempts
from lego_harness.tasks.folder import load_pool, workspace_files
from lego_harness.types import Task
from tests.support.archives import FILES, archive
from tests.support.sandboxes import backend_called, unique_label

HONEST = all_cheats()[:1]


def synth(out: Path, *arguments: str) -> int:
    return main(["tasks", "synth", "--sandbox", "bubblewrap", "--repeat", "1", *arguments, "--out", str(out)])


@pytest.mark.slow
def test_a_project_becomes_sound_tasks_that_do_not_show_their_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = str(archive(tmp_path / "shop-1.0.tar.gz"))
    bare = str(archive(tmp_path / "bare-1.0.tar.gz", dict.fromkeys(FILES, None)))
    assert synth(tmp_path / "a", shop, bare, "--size", "2", "--heldout", "shop") == 1
    assert "refused  bare: found no Python package" in capsys.readouterr().out
    pool, told = load_pool(tmp_path / "a"), json.loads((tmp_path / "a" / "synth.json").read_text())
    assert [task.split for task in pool] == ["heldout"] * 2
    assert [made["faults"] for made in told["projects"][0]["tasks"]] == [[], []]
    assert told["projects"][0]["num_functions"] == 3
    tried = told["projects"][0]["num_tried"]
    assert tried == 2 + sum(told["projects"][0]["rejected"].values())
    for task, made in zip(pool, told["projects"][0]["tasks"], strict=True):
        given = workspace_files(task)
        assert made["function"] != "unused"
        assert set(given) == set(FILES) - {"tests/test_prices.py"}
        assert given["shop/prices.py"].decode() != FILES["shop/prices.py"]
        assert FILES["shop/prices.py"].encode() not in given.values()


@pytest.mark.slow
def test_a_command_that_was_killed_goes_on_behind_the_last_project(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {"market.egg-info/top_level.txt": "shop\n"}
    one, other = (str(archive(tmp_path / f"{name}-1.0.tar.gz", named)) for name in ("shop", "market"))
    assert synth(tmp_path / "a", one, "--size", "1") == 0
    left = (tmp_path / "a").rename(tmp_path / ".b.unfinished")
    (left / "market-000" / "tests").mkdir(parents=True)
    assert synth(tmp_path / "b", one, other, "--size", "1", "--seed", "1") == 2
    assert "was begun with seed 0" in capsys.readouterr().err
    assert synth(tmp_path / "b", one, other, "--size", "1") == 0
    said = capsys.readouterr().out
    assert "market  " in said
    assert "shop  " not in said
    assert [task.id for task in load_pool(tmp_path / "b")] == ["market-000", "shop-000"]
    assert not left.exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"shop/__init__.py": "import not_here\n", "tests/test_others.py": None}, "none of its tests passes in the sandbox"),
        ({"tests/test_others.py": "import os\n\n\ndef test_end():\n    os._exit(0)\n"}, "did not run to their end"),
        ({"tests/test_others.py": "import random\n\n\ndef test_x():\n    assert 1\n", "shop/prices.py": "def f():\n    pass\n"}, "none of 1 projects gave a task"),
    ],
)  # fmt: skip
def test_a_project_whose_tests_do_not_tell_is_refused(
    files: dict[str, str | None], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert synth(tmp_path / "out", str(archive(tmp_path / "shop-1.0.tar.gz", files))) == 2
    shown = capsys.readouterr()
    assert said in shown.out + shown.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], "expected NAME==VERSION"),
        (["toolz", "toolz==1.2.0"], "named twice"),
        (["toolz", "--heldout", "parse"], "expected one of toolz"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert synth(tmp_path / "out", *arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.slow
def test_a_published_project_gives_tasks_that_pay_for_their_repair(tmp_path: Path) -> None:
    assert synth(tmp_path / "out", "isodate", "--size", "3", "--repeat", "0") == 0
    pool = load_pool(tmp_path / "out")
    assert [task.id for task in pool] == ["isodate-000", "isodate-001", "isodate-002"]
    assert {attempt.result for attempt in asyncio.run(honest(pool))} == {Result.HONEST}


async def honest(pool: Sequence[Task]) -> list[Attempt]:
    backend = backend_called("bubblewrap")
    return [one async for one in attempts(HONEST, pool, backend, label=unique_label())]
