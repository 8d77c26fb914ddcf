"""Each planted fault is caught by the check whose business it is, and by no other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lego_control.ci.outcome import Outcome, Status
from lego_control.validate.base import Ground
from lego_control.validate.plan import plan
from lego_control.validate.run import run_checks
from lego_core.config import Recipe
from lego_core.health import drop
from lego_core.leftovers import MARK
from lego_harness.errors import SetupError
from lego_harness.grading import grader
from lego_harness.grading.patch import GradedTree
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.sandbox.choose import choose_backend
from lego_harness.tasks.synth import write_pool
from tests.support.checkpoint import write_checkpoint
from tests.support.families import TEMPLATES
from tests.support.leaky_backend import LeakyBackend
from tests.support.processes import signature_of_the_dead
from tests.support.runs import recipe

CHEAP = (
    "limits",
    "paths",
    "clock",
    "ports",
    "store",
    "disk",
    "detectors",
    "pool",
    "git_history",
    "tokenizer",
    "template",
    "memory",
    "ranks",
)
NUMERIC = ("engine", "weight_sync", "agreement", "routes", "checkpoint")
GOOD = {name: {"status": "passed", "evidence": "fine", "remedy": ""} for name in NUMERIC}


@dataclass(kw_only=True)
class World:
    """A recipe that is fine, until somebody plants a fault."""

    folder: Path
    sections: dict[str, dict[str, Any]]
    backend: SandboxBackend
    told: dict[str, Any]
    """What the core's proofs say."""

    @property
    def model(self) -> Path:
        return self.folder / "model"

    @property
    def pool(self) -> Path:
        return self.folder / "pool"

    def a_task(self, split: str = "train") -> Path:
        """A task of the smallest sample."""
        return next(p for p in sorted(self.pool.iterdir()) if split in (p / "task.toml").read_text())

    async def run(self, *names: str) -> dict[str, Outcome]:
        scratch = self.folder / "scratch"
        scratch.mkdir(exist_ok=True)

        async def proofs(ground: Ground) -> dict[str, Any]:
            return self.told

        made: Recipe = recipe(**self.sections)
        ground = Ground(recipe=made, profile="smoke", scratch=scratch, backend=self.backend, proofs=proofs)
        checks = [check for check in plan() if check.name in names]
        outcomes = await run_checks(checks, ground, budget_s=600, waive=made.validation.waive)
        return {outcome.name: outcome for outcome in outcomes}


@pytest.fixture
def world(tmp_path: Path) -> World:
    write_checkpoint(tmp_path / "model", template=(TEMPLATES / "qwen3.jinja").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps({"hidden_size": 64, "vocab_size": 512}))
    write_pool(tmp_path / "pool", num_train=2, num_heldout=2, seed=0)
    return World(
        folder=tmp_path,
        sections={
            "run": {"name": "example", "runs_dir": str(tmp_path / "runs")},
            "model": {"path": str(tmp_path / "model")},
            "tasks": {"pool": str(tmp_path / "pool"), "num_train": 2, "num_heldout": 2},
            "rollout": {"max_tokens": 1000, "max_tokens_per_turn": 500, "groups_per_step": 2},
            "engine": {"max_model_len": 2048},
        },
        backend=choose_backend("bubblewrap"),
        told=dict(GOOD),
    )


Plant = Callable[[World, pytest.MonkeyPatch], object]


def _set(section: str, **keys: object) -> Plant:
    return lambda world, patch: world.sections.setdefault(section, {}).update(keys)


def _clock(world: World, patch: pytest.MonkeyPatch) -> None:
    real = time.time
    patch.setattr("lego_control.validate.checks.clock.time.time", lambda: real() + 3600)


def _too_few_gpus(world: World, patch: pytest.MonkeyPatch) -> None:
    _three_gpus(world.folder, patch)
    world.sections["train"] = {"num_ranks": 4}


def _three_gpus(folder: Path, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("lego_core.rank_fit.DRIVER", folder / "gpus")
    patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for name in "abc":
        (folder / "gpus" / name).mkdir(parents=True)


def _odd_heads(world: World, patch: pytest.MonkeyPatch) -> None:
    config = {"hidden_size": 64, "vocab_size": 512, "num_attention_heads": 6, "num_key_value_heads": 2}
    (world.model / "config.json").write_text(json.dumps(config))
    world.sections["train"] = {"num_ranks": 4, "context_parallel": 4, "packing": True}


def _no_sockets(world: World, patch: pytest.MonkeyPatch) -> None:
    deep = world.folder / ("x" * 120)
    deep.mkdir()
    patch.setattr("tempfile.tempdir", str(deep))  # a unix address holds about a hundred bytes


def _no_locks(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("lego_core.store.writer.try_lock", lambda path: None)


def _blind(world: World, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(drop, "SIGMAS", 1e12)


def _leak_a_task(world: World, patch: pytest.MonkeyPatch) -> None:
    copy = world.pool / "another-name"
    shutil.copytree(world.a_task(), copy)
    text = (copy / "task.toml").read_text()
    (copy / "task.toml").write_text(text.replace('"train"', '"heldout"'))


def _history(world: World, patch: pytest.MonkeyPatch) -> None:
    git = world.a_task() / "environment" / "repo" / ".git" / "objects"
    git.mkdir(parents=True)
    (git / "pack").write_bytes(b"history")


def _hidden_test(world: World, patch: pytest.MonkeyPatch) -> None:
    task = world.a_task()
    test = next(path for path in sorted((task / "tests").rglob("*.py")) if path.stat().st_size > 64)
    shutil.copy(test, task / "environment" / "repo" / "notes.txt")


def _lossy_tokenizer(world: World, patch: pytest.MonkeyPatch) -> None:
    path = world.model / "tokenizer.json"
    made = json.loads(path.read_text())
    path.write_text(
        json.dumps(made | {"normalizer": {"type": "Replace", "pattern": {"String": "\t"}, "content": " "}})
    )


def _other_template(world: World, patch: pytest.MonkeyPatch) -> None:
    for path in world.model.glob("chat_template*"):
        path.write_text("{% for m in messages %}{{ m.content }}{% endfor %}")


CHEAP_FAULTS: dict[str, tuple[str, Plant]] = {
    "a turn as long as the context": ("limits", _set("rollout", max_tokens_per_turn=4096)),
    "a group of one": ("limits", _set("rollout", group_size=1)),
    "a model folder that is not there": ("paths", _set("model", path="/nonexistent")),
    "a clock an hour off": ("clock", _clock),
    "no unix sockets": ("ports", _no_sockets),
    "a file system without locks": ("store", _no_locks),
    "more than the disk holds": ("disk", _set("rollout", max_tokens=10**12)),
    "more than the memory holds": ("memory", _set("engine", kv_cache_gb=1e5)),
    "more ranks than GPUs": ("ranks", _too_few_gpus),
    "experts shared by ranks of a dense model": ("ranks", _set("train", num_ranks=2, expert_parallel=2)),
    "heads that ranks cannot share": ("ranks", _odd_heads),
    "detectors that see nothing": ("detectors", _blind),
    "a held-out task that is trained on": ("pool", _leak_a_task),
    "too few tasks": ("pool", _set("tasks", num_train=50)),
    "a git history that cannot be sealed": ("git_history", _history),
    "a hidden test in a workspace": ("git_history", _hidden_test),
    "a tokenizer that loses text": ("tokenizer", _lossy_tokenizer),
    "a chat template of another model": ("template", _other_template),
}


@pytest.mark.parametrize("fault", CHEAP_FAULTS)
async def test_a_fault_is_caught_by_its_check_and_by_no_other(
    fault: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, plant = CHEAP_FAULTS[fault]
    plant(world, monkeypatch)
    outcomes = await world.run(*CHEAP)
    assert_caught_alone(name, outcomes)
    assert outcomes[name].evidence
    assert outcomes[name].remedy


def assert_caught_alone(name: str, outcomes: dict[str, Outcome]) -> None:
    assert {o.name for o in outcomes.values() if o.status not in (Status.PASSED, Status.SKIPPED)} == {name}, (
        outcomes
    )
    assert outcomes[name].status is Status.FAILED


def test_every_check_has_a_planted_fault() -> None:
    others = {"leftovers", "egress", "sandbox", "harness", *NUMERIC, *(name for name, _ in GRADING_FAULTS)}
    caught = {name for name, _ in CHEAP_FAULTS.values()} | others
    assert caught == {check.name for check in plan()}
    assert len(caught) >= 20


async def test_a_recipe_that_leaves_its_lengths_to_their_defaults_fits_itself(world: World) -> None:
    del world.sections["rollout"], world.sections["engine"]
    assert (await world.run("limits"))["limits"].status is Status.PASSED


async def test_without_a_fault_every_cheap_check_passes(world: World) -> None:
    outcomes = await world.run(*CHEAP)
    assert {o.name: o.evidence for o in outcomes.values() if o.status is not Status.PASSED} == {}
    assert not (world.folder / "runs").exists()


@pytest.mark.parametrize(("engines", "gib"), [(0, 18), (1, 30)])
async def test_checkpoints_that_wait_for_their_evaluation_take_disk_too(
    world: World, monkeypatch: pytest.MonkeyPatch, engines: int, gib: int
) -> None:
    """Each of 6 GiB: two are kept, as many may wait, and one is being written."""
    monkeypatch.setattr("lego_control.validate.checks.disk.weight_bytes", lambda _: 2**30)
    world.sections["eval"] = {"engines": engines}
    assert f"about {gib}.0 GiB" in (await world.run("paths", "disk"))["disk"].evidence


async def test_as_many_ranks_and_engines_as_gpus_pass(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _three_gpus(world.folder, monkeypatch)
    world.sections["train"] = {"num_ranks": 2, "expert_parallel": 2}
    config = {"hidden_size": 64, "vocab_size": 512, "num_local_experts": 6}
    (world.model / "config.json").write_text(json.dumps(config))
    assert (await world.run("paths", "ranks"))["ranks"].evidence == "trainer ranks: 2, engines: 1, on 3 GPUs"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,2")
    assert (await world.run("paths", "ranks"))["ranks"].status is Status.FAILED
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert (await world.run("paths", "ranks"))["ranks"].evidence == "trainer ranks: 2, engines: 1, on the CPU"


@pytest.mark.parametrize("name", NUMERIC)
async def test_what_the_core_cannot_prove_is_told_by_its_check_alone(name: str, world: World) -> None:
    world.told[name] = {"status": "failed", "evidence": "off by one", "remedy": "do"}
    assert_caught_alone(name, await world.run(*CHEAP, *NUMERIC))


@pytest.mark.xdist_group("launches")  # see tests/core/test_leftovers.py
async def test_a_process_that_a_dead_launch_left_is_found(world: World) -> None:
    with _left_behind():
        assert_caught_alone("leftovers", await world.run("leftovers", *CHEAP))


@contextmanager
def _left_behind() -> Iterator[None]:
    """A process that waits, marked by a launch that has ended."""
    with subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {MARK: signature_of_the_dead()},
    ) as left:
        assert left.stdout is not None
        left.stdout.readline()
        yield
        left.kill()


async def test_a_sandbox_that_reaches_the_network_is_refused(world: World) -> None:
    world.backend = LeakyBackend()
    outcomes = await world.run(*CHEAP, "sandbox", "egress")
    assert_caught_alone("egress", outcomes)
    assert "127.0.0.1" in outcomes["egress"].evidence


async def test_a_backend_that_cannot_be_used_is_told_once(world: World) -> None:
    class Absent(LeakyBackend):
        async def check(self) -> None:
            raise SetupError("no engine answers; start one")

    world.backend = Absent()
    others = ("egress", "nop", "oracle", "redteam", "harness")
    outcomes = await world.run(*CHEAP, "sandbox", *others)
    assert_caught_alone("sandbox", outcomes)
    assert {outcomes[name].status for name in others} == {Status.SKIPPED}
    assert outcomes["egress"].evidence == "needs sandbox, which did not pass"


async def test_a_harness_that_is_not_installed_is_told_with_how_to_install_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEGO_CACHE", str(world.folder / "empty"))
    outcomes = await world.run(*CHEAP, "harness")
    assert_caught_alone("harness", outcomes)
    assert "lego_harness.adapters.install mini-swe-agent" in outcomes["harness"].remedy


def _solved_already(world: World, patch: pytest.MonkeyPatch) -> None:
    task = world.a_task()
    for test in (task / "tests").rglob("test_*.py"):
        test.write_text("def test_nothing():\n    assert True\n")


def _bad_solution(world: World, patch: pytest.MonkeyPatch) -> None:
    (world.a_task() / "solution" / "solve.sh").write_text("true\n")


def _soft_grader(world: World, patch: pytest.MonkeyPatch) -> None:
    def believes_all(before: Any, exported: Any) -> GradedTree:
        return GradedTree(files=dict(exported), reverted=())

    patch.setattr(grader, "graded_tree", believes_all)
    real = grader.make_grade
    patch.setattr(grader, "make_grade", lambda *a, **k: replace(real(*a, **k), reward=1.0))


GRADING_FAULTS = (("nop", _solved_already), ("oracle", _bad_solution), ("redteam", _soft_grader))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "plant"), GRADING_FAULTS)
async def test_a_fault_of_grading_is_caught_by_its_check_and_by_no_other(
    name: str, plant: Plant, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(world, monkeypatch)
    assert_caught_alone(name, await world.run(*CHEAP, "sandbox", "egress", "nop", "oracle", "redteam"))


async def test_a_waiver_has_a_reason_and_is_shown(world: World) -> None:
    world.sections["rollout"]["group_size"] = 1
    world.sections["validation"] = {"waive": {"limits": "a smoke run, nothing is to be learned"}}
    outcomes = await world.run("limits")
    assert outcomes["limits"].status is Status.WAIVED
    assert "waived: a smoke run" in outcomes["limits"].evidence


async def test_what_the_budget_does_not_reach_is_an_error_and_no_pass(world: World) -> None:
    async def never(ground: Ground) -> dict[str, Any]:
        raise AssertionError

    ground = Ground(
        recipe=recipe(**world.sections),
        profile="smoke",
        scratch=world.folder,
        backend=world.backend,
        proofs=never,
    )
    outcomes = await run_checks(plan(), ground, budget_s=0, waive={})
    assert {o.status for o in outcomes} <= {Status.ERROR, Status.SKIPPED}
    assert outcomes[0].status is Status.ERROR
