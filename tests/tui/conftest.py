"""Example runs, written once for all tests of the display."""

from __future__ import annotations

from pathlib import Path

import pytest

from lego_control.demo_runs.write import write_demo_runs


@pytest.fixture(scope="session")
def _demo_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo")
    for _ in write_demo_runs(folder / "runs", steps=12):
        pass
    return folder


@pytest.fixture
def demo(_demo_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The five example runs, at the relative path that pictures show. Only to be read."""
    monkeypatch.chdir(_demo_folder)
    return Path("runs")
