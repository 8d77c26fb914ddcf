"""What scripts/setup.sh says on a machine that lacks something, before it touches anything."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("bash", "dirname", "cat", "sha256sum", "cut", "id", "rm", "env")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with set-up's own files and a PATH that has nothing but the shell's tools."""
    (tmp_path / "bin").mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found
        (tmp_path / "bin" / tool).symlink_to(found)
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def program(clone: Path, name: str, script: str) -> None:
    path = clone / "bin" / name
    path.write_text(f"#!{clone}/bin/bash\n{script}\n")
    path.chmod(0o755)


def setup(clone: Path) -> tuple[int, list[str]]:
    done = subprocess.run(
        [clone / "bin" / "bash", clone / "scripts" / "setup.sh"],
        env={"PATH": str(clone / "bin"), "HOME": str(clone)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr.splitlines()


def become(clone: Path, user: int) -> None:
    (clone / "bin" / "id").unlink()
    program(clone, "id", f"echo {user}")


def old_python(clone: Path) -> None:
    program(clone, "python3", 'if [ "$1" = -V ]; then echo Python 3.9.2; else exit 1; fi')


def new_python_without_venv(clone: Path) -> None:
    program(
        clone,
        "python3",
        'case "$2" in *"< (3, 11)"*) exit 0 ;; *ensurepip*) exit 1 ;; *print*) echo 3.12 ;; esac',
    )


def test_an_old_python_is_named(clone: Path) -> None:
    old_python(clone)
    code, lines = setup(clone)
    assert code == 3
    assert lines == [
        "setup: no Python 3.11 or newer on PATH (got: Python 3.9.2); install one, or set PYTHON to one"
    ]
    assert not (clone / ".venv").exists()


def test_without_root_the_package_to_install_is_named(clone: Path) -> None:
    new_python_without_venv(clone)
    program(clone, "apt-get", "exit 1")
    become(clone, 1000)
    code, lines = setup(clone)
    assert code == 3
    assert (
        "setup: missing: python3.12-venv, which need root; run: sudo apt-get install -y --no-install-recommends python3.12-venv"
        in lines
    )
    assert lines[-1].endswith("python3 cannot make virtual environments")
    assert not (clone / ".venv").exists()


def test_what_needs_root_is_done_where_it_may(clone: Path) -> None:
    new_python_without_venv(clone)
    become(clone, 0)
    program(clone, "apt-get", f'echo "$*" >> {clone}/apt.log')
    setup(clone)
    assert (clone / "apt.log").read_text().splitlines() == [
        "update -qq",
        "install -y -qq --no-install-recommends python3.12-venv",
    ]
