"""The wheel holds what a clone holds: four packages, their data, the recipes, one command."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "lego_core": "core",
    "lego_harness": "harness_adapters",
    "lego_control": "control_plane",
    "lego_tui": "tui",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)], check=True)
    (built,) = folder.glob("lego_rl-*.whl")
    return zipfile.ZipFile(built)


def tracked(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.parametrize("package", FOLDERS)
def test_every_file_of_a_package_is_in_the_wheel(wheel: zipfile.ZipFile, package: str) -> None:
    inside = {name.removeprefix(f"{package}/") for name in wheel.namelist() if name.startswith(f"{package}/")}
    recipes = {f"recipes/{name}" for name in tracked(ROOT / "core" / "recipes")}
    assert inside == tracked(ROOT / FOLDERS[package] / package) | (
        recipes if package == "lego_core" else set()
    )


def test_the_wheel_holds_nothing_else_and_gives_one_command(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    (metadata,) = tops - set(FOLDERS)
    assert metadata.endswith(".dist-info")
    assert wheel.read(f"{metadata}/entry_points.txt").decode().split() == [
        "[console_scripts]",
        "lego",
        "=",
        "lego_control.cli:main",
    ]
    assert any(name.endswith("licenses/LICENSE") for name in wheel.namelist())
