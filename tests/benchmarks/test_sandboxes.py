"""The benchmarks of sandboxes measure what they say, each at its smallest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks import sandbox_grading, sandbox_image, sandbox_lazy, sandbox_runtime, sandbox_setup
from benchmarks.containers import Compared, Pair
from benchmarks.environments import Environment
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.base import Mount

HERE = Path(__file__)
TINY = Environment(name="tiny", folders=("iniconfig",), uses=(("import iniconfig", "import iniconfig"),))


def test_a_ratio_is_the_median_of_pairs() -> None:
    pairs = [Pair(what=str(n), with_s=1, without_s=n) for n in (2, 3, 10)]
    compared = Compared(name="image", pairs=pairs, paper=33.2)
    assert compared.row() == "| image (2, 3, 10) | 1.00 | 3.00 | 3.0 (2.0–10.0) | 33.2 |"


def test_our_aims_are_told_from_the_same_run() -> None:
    took = {sandbox_setup.BARE: [1.0, 1.0], sandbox_setup.OURS: [1.2, 1.4]}
    found = sandbox_setup.Found(at_once=2, took=took)
    assert [is_reached for _, is_reached in sandbox_setup.verdicts(found)] == [False, False]
    found.took[sandbox_setup.OURS] = [0.9, 1.2]
    assert [is_reached for _, is_reached in sandbox_setup.verdicts(found)] == [True, True]


@pytest.mark.slow
@pytest.mark.docker
def test_sandboxes_are_set_up_at_once_beside_bare_containers() -> None:
    found = sandbox_setup.measure(at_once=2, rounds=1, harbor=False)
    assert [len(took) for took in found.took.values()] == [2, 2]
    assert len(sandbox_setup.report(found).splitlines()) == 4


@pytest.mark.slow
@pytest.mark.docker
def test_an_image_is_built_where_it_is_not_there() -> None:
    (pair,) = sandbox_image.measure(("json",), fetch="ARG BASE\nFROM $BASE\nCOPY word /\n").pairs
    assert pair.without_s > 0
    assert pair.with_s > 0


@pytest.mark.slow
@pytest.mark.docker
def test_a_harness_answers_mounted_and_installed() -> None:
    runtime = sandbox_runtime.Runtime(
        name="this", mount=Mount(source=HERE, target="/opt/lego/this"), answer=["cat", "/opt/lego/this"],
        script="echo installed",
    )  # fmt: skip
    (pair,) = sandbox_runtime.measure([runtime], engine.default_image()).pairs
    assert min(pair.with_s, pair.without_s) > 0


@pytest.mark.slow
@pytest.mark.docker
def test_a_solved_task_is_graded_with_and_without_the_packaged_toolchain() -> None:
    (pair,) = sandbox_grading.measure(1, install="true", image=engine.default_image()).pairs
    assert min(pair.with_s, pair.without_s) > 0


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.skipif(shutil.which("mksquashfs") is None, reason="needs mksquashfs; .ci/run installs it")
def test_a_lazy_environment_moves_what_is_read_and_an_image_all_of_it() -> None:
    lazily, whole = sandbox_lazy.measure((TINY,), formats=("squashfs",))
    assert lazily.moments[0].moved <= lazily.moments[-1].moved
    assert whole.moments[0].moved == whole.moments[-1].moved > 0
    assert min(one.cold_mb_s for one in (lazily, whole)) > 0
    assert len(sandbox_lazy.report([lazily, whole]).splitlines()) >= 4
    assert "times sooner" in sandbox_lazy.verdicts([lazily, whole])[0][0]
