"""`lego tasks`: the pool a person can look at."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from lego_control.pool import make_pool
from lego_harness.errors import InfrastructureError
from lego_harness.tasks.folder import load_pool

SMALL = "[tasks]\nnum_train = 3\nnum_heldout = 2\n"


@pytest.fixture
def small_recipe(tmp_path: Path) -> Path:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


def test_the_pool_holds_what_the_recipe_asks_for_and_the_same_for_the_same_seed(
    tmp_path: Path, small_recipe: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_pool(small_recipe, tmp_path / name, seed=seed, prove_in=None, console=Console(width=200))
    pools = {name: [task.instruction for task in load_pool(tmp_path / name)] for name in "abc"}
    assert sorted(task.split for task in load_pool(tmp_path / "a")) == ["heldout"] * 2 + ["train"] * 3
    assert pools["a"] == pools["b"] != pools["c"]
    assert f"5 tasks in {tmp_path / 'a'}" in capsys.readouterr().out


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path, small_recipe: Path) -> None:
    with pytest.raises(
        InfrastructureError, match=r"--out .*small\.toml/pool: cannot be written: Not a directory"
    ):
        make_pool(small_recipe, small_recipe / "pool", seed=0, prove_in=None, console=Console())


@pytest.mark.slow
def test_a_generated_pool_is_proven(
    tmp_path: Path, small_recipe: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEGO_CACHE", str(tmp_path / "cache"))
    make_pool(small_recipe, tmp_path / "pool", seed=0, prove_in="auto", console=Console(width=200))
    assert ": untouched earns 0, the reference solution 1" in capsys.readouterr().out
