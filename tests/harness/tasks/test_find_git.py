"""The search for git objects, as it runs inside: it misses nothing that can be read and says what it could not read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lego_harness.grading.git_history import STORED
from lego_harness.tasks import find_git

LOOSE = f"objects/ab/{'c' * 38}"


def found(*roots: Path | str, home: Path | None = None) -> list[str]:
    argv = [sys.executable, "-I", "-S", "-", STORED.pattern, *map(str, roots)]
    program = Path(find_git.__file__).read_bytes()
    env = {"HOME": str(home)} if home else {}
    return (
        subprocess.run(argv, input=program, capture_output=True, check=True, env=env).stdout.decode().split()
    )


@pytest.mark.parametrize(
    ("name", "is_found"),
    [
        (f"testbed/.git/{LOOSE}", True),
        (f"deep/er/bare/{LOOSE}", True),
        (f"modules/x/objects/pack/pack-{'0' * 40}.pack", True),
        ("a/objects/info/alternates", True),
        ("a/objects/info/http-alternates", True),
        ("a/.git/objects/pack/tmp_pack_x1", True),
        (f"a/.git/lfs/objects/ab/cd/{'a' * 64}", True),
        ("a/.hg/store/data/x.i", True),
        ("a/.svn/pristine/ab/x.svn-base", True),
        ("a/.svn/wc.db", False),
        ("a/objects/pack/pack-1.idx", False),
        ("a/objects/ab/short", False),
        ("my.pack", False),
    ],
)
def test_objects_are_found_wherever_they_lie(tmp_path: Path, name: str, is_found: bool) -> None:
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).touch()
    assert found(tmp_path) == [str(tmp_path / name)] * is_found


def test_a_home_is_searched_by_its_sign_and_a_missing_place_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / LOOSE).parent.mkdir(parents=True)
    (tmp_path / LOOSE).touch()
    assert found("~", tmp_path / "missing", home=tmp_path) == [str(tmp_path / LOOSE)]


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "away" / LOOSE).parent.mkdir(parents=True)
    (tmp_path / "away" / LOOSE).touch()
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "away")
    assert found(tmp_path / "in") == []
