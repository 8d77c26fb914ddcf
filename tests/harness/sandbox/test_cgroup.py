"""Whose want of memory a kill was for: the container's, or the machine's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lego_harness.sandbox import cgroup

LIMIT = 1280 * 2**20
FIRST = {
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n",
    "memory.limit_in_bytes": f"{LIMIT}\n",
    "memory.max_usage_in_bytes": "{most}\n",
}
SECOND = {"memory.events": "low 0\noom {refused}\noom_kill {kills}\n"}


@pytest.fixture(params=[FIRST, SECOND], ids=["first", "second"])
def count(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Path]:
    """Sets what both kinds of control groups and the machine say; the container's counter."""
    monkeypatch.setattr(cgroup, "_MACHINE", tmp_path / "vmstat")

    def say(*, kills: int, refused: int, machine: int) -> Path:
        (tmp_path / "vmstat").write_text(f"nr_free 7\noom_kill {machine}\n")
        for name, text in request.param.items():
            (tmp_path / name).write_text(
                text.format(kills=kills, refused=refused, most=LIMIT - 2**30 * (not refused))
            )
        return tmp_path / next(iter(request.param))

    return say


def test_a_kill_at_its_own_bound_is_the_container_s(count: Callable[..., Path]) -> None:
    kills = cgroup.Kills(count(kills=0, refused=0, machine=5))
    assert (kills.num_own, kills.num_others) == (0, 0)
    count(kills=1, refused=3, machine=6)
    assert (kills.num_own, kills.num_others) == (1, 0)
    count(kills=1, refused=3, machine=8)
    assert (kills.num_own, kills.num_others) == (1, 2)


def test_a_kill_below_its_bound_is_the_machine_s(count: Callable[..., Path]) -> None:
    kills = cgroup.Kills(count(kills=0, refused=0, machine=5))
    count(kills=1, refused=0, machine=6)
    assert (kills.num_own, kills.num_others) == (0, 1)


def test_without_a_counter_every_kill_is_the_machine_s(count: Callable[..., Path]) -> None:
    count(kills=0, refused=0, machine=5)
    kills = cgroup.Kills()
    count(kills=0, refused=0, machine=6)
    assert (kills.num_own, kills.num_others) == (0, 1)
