"""Checkpoints are there whole or not at all, and continue exactly."""

from __future__ import annotations

import json
import pickle
import resource
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lego_core.config import TrainConfig
from lego_core.errors import CheckpointError
from lego_core.inference.canary import reference_logprobs
from lego_core.training import checkpoint
from lego_core.training.trainer import Trainer, TrainerSpec
from tests.support.samples import random_sample
from tests.support.tiny_model import build_random_model


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return build_random_model(tmp_path_factory.mktemp("model"), hidden=32)


def trainer(model_dir):
    config = TrainConfig(learning_rate=1e-2, updates_per_batch=2)
    return Trainer(TrainerSpec(model_dir=model_dir, config=config, temperature=1.0))


def batch(seed):
    return [random_sample(f"r{i}", seed=seed * 10 + i, advantage=(-1.0) ** i) for i in range(4)]


def test_a_resumed_trainer_continues_bit_by_bit(model_dir, tmp_path):
    straight, first = trainer(model_dir), trainer(model_dir)
    for t in (straight, first):
        t.train_step(batch(1))
    first.save_checkpoint(tmp_path / "00001", {"step_record": {"step": 1}})
    resumed = trainer(model_dir)
    assert resumed.load_checkpoint(tmp_path / "00001") == {"step_record": {"step": 1}}
    a, b = straight.train_step(batch(2)), resumed.train_step(batch(2))
    assert (a.loss, a.grad_norm, a.kl_loss) == (b.loss, b.grad_norm, b.kl_loss)
    straight.export(tmp_path / "a.safetensors")
    resumed.export(tmp_path / "b.safetensors")
    one, two = load_file(tmp_path / "a.safetensors"), load_file(tmp_path / "b.safetensors")
    assert all(torch.equal(one[n], two[n]) for n in one)


def test_what_is_trained_while_a_checkpoint_is_written_is_not_in_it(model_dir, tmp_path, monkeypatch):
    straight, trained = trainer(model_dir), trainer(model_dir)
    for t in (straight, trained):
        t.train_step(batch(1))
    may_end, commit = threading.Event(), checkpoint._commit
    monkeypatch.setattr(checkpoint, "_commit", lambda *paths: (may_end.wait(), commit(*paths)))
    writing = trained.begin_checkpoint(tmp_path / "00001", {})
    trained.train_step(batch(3))
    assert not (tmp_path / "00001").exists()
    may_end.set()
    writing.wait()
    trained.load_checkpoint(tmp_path / "00001")
    a, b = straight.train_step(batch(2)), trained.train_step(batch(2))
    assert (a.loss, a.grad_norm, a.kl_loss) == (b.loss, b.grad_norm, b.kl_loss)


def test_a_checkpoint_is_a_model_folder_that_transformers_loads(model_dir, tmp_path):
    trained = trainer(model_dir)
    trained.train_step(batch(1))
    trained.save_checkpoint(tmp_path / "c", {})
    sample = random_sample("r")
    got = reference_logprobs(tmp_path / "c", sample.ids[:10], sample.ids[10:])
    before = reference_logprobs(model_dir, sample.ids[:10], sample.ids[10:])
    assert abs(got - before).max() > 1e-3
    again = Trainer(TrainerSpec(model_dir=tmp_path / "c", config=TrainConfig(), temperature=1.0))
    again.export(tmp_path / "again.safetensors")
    one, two = load_file(tmp_path / "again.safetensors"), load_file(tmp_path / "c" / "model.safetensors")
    assert one.keys() == two.keys()
    assert all(torch.equal(one[n], two[n]) for n in one)


def test_the_callers_state_stands_alone_in_state_json(model_dir, tmp_path):
    trainer(model_dir).save_checkpoint(tmp_path / "c", {"step_record": {"step": 3}})
    assert json.loads((tmp_path / "c" / "state.json").read_text()) == {"step_record": {"step": 3}}


def test_a_checkpoint_of_another_model_is_named_with_the_difference(model_dir, tmp_path):
    other = build_random_model(tmp_path / "other", hidden=64)
    trainer(other).save_checkpoint(tmp_path / "c", {})
    with pytest.raises(CheckpointError, match="another model: its hidden_size is 64, expected 32"):
        trainer(model_dir).load_checkpoint(tmp_path / "c")


@pytest.mark.parametrize("part", ["optimizer/.metadata", "optimizer/__0_0.distcp", "random.pt", "shape.json"])
def test_an_unreadable_checkpoint_is_an_error_that_names_it(model_dir, tmp_path, part):
    trained = trainer(model_dir)
    trained.train_step(batch(1))
    trained.save_checkpoint(tmp_path / "c", {})
    (tmp_path / "c" / part).write_bytes(b"half")
    with pytest.raises(CheckpointError, match=f"{tmp_path}/c cannot be read"):
        trained.load_checkpoint(tmp_path / "c")
    with pytest.raises(CheckpointError, match="nowhere cannot be read"):
        trained.load_checkpoint(tmp_path / "nowhere")


class Hostile:
    """What it is made of again is a call."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_a_checkpoint_runs_nothing_that_came_with_it(model_dir, tmp_path):
    trained = trainer(model_dir)
    trained.train_step(batch(1))
    trained.save_checkpoint(tmp_path / "c", {})
    (tmp_path / "c/optimizer/.metadata").write_bytes(pickle.dumps(Hostile(tmp_path / "ran")))
    with pytest.raises(CheckpointError, match=r"cannot be read: .*names .*expected a description of tensors"):
        trained.load_checkpoint(tmp_path / "c")
    assert not (tmp_path / "ran").exists()


def test_a_step_is_committed_once(model_dir, tmp_path):
    trained = trainer(model_dir)
    trained.save_checkpoint(tmp_path / "c", {})
    with pytest.raises(CheckpointError, match="exists already"):
        trained.save_checkpoint(tmp_path / "c", {})


def test_a_full_disk_leaves_nothing_behind_and_says_so(model_dir, tmp_path, monkeypatch):
    def full(*_args):
        raise OSError(28, "No space left on device")

    trained = trainer(model_dir)
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CheckpointError, match=r"could not be written.*No space left.*free some space"):
        trained.save_checkpoint(tmp_path / "c", {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("trained", [False, True], ids=["weights", "optimizer"])
def test_whichever_library_the_disk_refuses_it_is_the_same_error(model_dir, tmp_path, trained):
    """Each calls it otherwise: safetensors and torch have errors of their own."""
    policy = trainer(model_dir)
    if trained:
        policy.train_step(batch(1))
    with largest_file(20_000), pytest.raises(CheckpointError, match=r"could not be written.*free some space"):
        policy.save_checkpoint(tmp_path / "c", {})
    assert list(tmp_path.iterdir()) == []
    policy.save_checkpoint(tmp_path / "c", {})


@contextmanager
def largest_file(num_bytes):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


KILLED = """
import os, random, signal, sys, time
from pathlib import Path
from lego_core.config import TrainConfig
from lego_core.training import checkpoint
from lego_core.training.trainer import Trainer, TrainerSpec
from tests.support.samples import random_sample

model, out = Path(sys.argv[1]), Path(sys.argv[2])
trainer = Trainer(TrainerSpec(model_dir=model, config=TrainConfig(kl_coef=0), temperature=1.0))
trainer.train_step([random_sample("r0"), random_sample("r1", advantage=-1.0)])
chance = random.Random(0)
whole = 0
for kill in range(300):
    names = [path.name for path in out.iterdir()]
    halves = sum(name.startswith(".") for name in names)
    if kill >= 30 and halves and len(names) - halves >= 5:
        break  # on a busy machine it takes more kills to strike often enough
    child = os.fork()
    if child == 0:
        for i in range(1000):
            trainer.save_checkpoint(out / f"{kill:03d}-{i:04d}", {"kill": kill, "i": i})
        os._exit(1)
    time.sleep(chance.uniform(0.002, 0.2))
    os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
for path in sorted(out.iterdir()):
    if not path.name.startswith("."):
        assert trainer.load_checkpoint(path) == {"kill": int(path.name[:3]), "i": int(path.name[4:])}
        whole += 1
print(whole, len(list(out.glob(".partial-*"))))
"""


@pytest.mark.long
def test_a_kill_at_any_point_leaves_only_whole_checkpoints(model_dir, tmp_path):
    out = tmp_path / "checkpoints"
    out.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(model_dir), str(out)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.returncode == 0, done.stderr
    whole, halves = map(int, done.stdout.split())
    assert whole >= 5
    assert halves >= 1, "no kill struck in the middle of a write: the test shows nothing"
