"""What an engine keeps for its next process: whole, the newest, and nobody else's to change."""

from __future__ import annotations

from pathlib import Path

import pytest

from lego_core.inference.kept_weights import KeptWeights


def test_nothing_was_kept_before_the_first(tmp_path: Path) -> None:
    assert KeptWeights(tmp_path).latest() is None


def test_what_was_kept_last_is_found_by_the_next_process_and_stays_what_it_was(tmp_path: Path) -> None:
    weights = tmp_path / "exported"
    for version in (9, 10, 4):  # a run that goes on from a checkpoint may publish a smaller one
        (tmp_path / "new").write_text(f"weights {version}")
        (tmp_path / "new").rename(weights)  # as the trainer writes them
        KeptWeights(tmp_path).keep(weights, version)
    weights.unlink()
    path, version = KeptWeights(tmp_path).latest() or (Path(), -1)
    assert (path.read_text(), version) == ("weights 4", 4)
    assert [entry.name for entry in (tmp_path / "weights").iterdir()] == ["2-4"]


def test_a_folder_is_no_weights_and_nothing_in_it_is_copied(tmp_path: Path) -> None:
    """A checkpoint has its optimizer beside its weights, twice as large."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "optimizer.pt").write_text("large")
    with pytest.raises(OSError, match="checkpoint"):
        KeptWeights(tmp_path).keep(tmp_path / "checkpoint", 3)
    assert list((tmp_path / "weights").iterdir()) == []


def test_what_a_process_left_half_kept_is_passed_over(tmp_path: Path) -> None:
    """Between keeping one and removing the other, and amid writing the next."""
    for name in ("0-1", "1-2", "unfinished"):
        (tmp_path / "weights").mkdir(exist_ok=True)
        (tmp_path / "weights" / name).write_text(name)
    assert KeptWeights(tmp_path).latest() == (tmp_path / "weights" / "1-2", 2)
    (tmp_path / "exported").write_text("weights 3")
    KeptWeights(tmp_path).keep(tmp_path / "exported", 3)
    assert [entry.name for entry in (tmp_path / "weights").iterdir()] == ["2-3"]


def test_weights_that_are_not_there_leave_what_was_kept(tmp_path: Path) -> None:
    (tmp_path / "exported").write_text("weights 1")
    KeptWeights(tmp_path).keep(tmp_path / "exported", 1)
    with pytest.raises(OSError, match="nowhere"):
        KeptWeights(tmp_path).keep(tmp_path / "nowhere", 2)
    path, version = KeptWeights(tmp_path).latest() or (Path(), -1)
    assert (path.read_text(), version) == ("weights 1", 1)
