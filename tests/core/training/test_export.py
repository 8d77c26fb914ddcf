"""What `lego export` writes is a model for everybody else, and nothing but a model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from lego_core.config import TrainConfig
from lego_core.inference.canary import reference_logprobs
from lego_core.training.export import main
from lego_core.training.trainer import Trainer, TrainerSpec
from tests.support.runs import write_run
from tests.support.samples import random_sample
from tests.support.tiny_model import build_random_model


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_random_model(tmp_path_factory.mktemp("model"), hidden=32)


@pytest.fixture
def run(tmp_path: Path, model_dir: Path) -> Path:
    """A run of three steps with the checkpoints of the last two."""
    directory = write_run(tmp_path)
    trainer = Trainer(
        TrainerSpec(model_dir=model_dir, config=TrainConfig(learning_rate=1e-2, kl_coef=0.0), temperature=1.0)
    )
    for step in (2, 3):
        trainer.train_step([random_sample("r0"), random_sample("r1", advantage=-1.0)])
        trainer.save_checkpoint(directory / "checkpoints" / f"{step:05d}", {})
    return directory


def test_transformers_loads_an_export_and_computes_what_was_trained(run: Path, tmp_path: Path) -> None:
    assert main([str(run), "--out", str(tmp_path / "out")]) == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"config.json", "model.safetensors", "README.md"} <= names
    assert not names & {"optimizer", "random.pt", "state.json", "shape.json"}
    sample = random_sample("r")
    got = reference_logprobs(tmp_path / "out", sample.ids[:10], sample.ids[10:])
    wanted = reference_logprobs(run / "checkpoints" / "00003", sample.ids[:10], sample.ids[10:])
    assert np.array_equal(got, wanted)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "step 3" in card
    assert "Held-out at step 3" in card


def test_weights_are_written_in_the_type_the_model_came_in(run: Path, tmp_path: Path) -> None:
    config = run / "checkpoints" / "00002" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"dtype": "bfloat16"}))
    assert main([str(run), "--step", "2", "--out", str(tmp_path / "out")]) == 0
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}


def test_a_step_without_a_checkpoint_is_refused_with_those_there_are(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(run), "--step", "1", "--out", str(tmp_path / "out")]) == 2
    assert "no checkpoint of step 1, there are: 2, 3" in capsys.readouterr().err


def test_nothing_is_overwritten_and_a_broken_checkpoint_leaves_nothing(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").mkdir()
    assert main([str(run), "--out", str(tmp_path / "there")]) == 2
    assert "exists already" in capsys.readouterr().err
    (run / "checkpoints" / "00003" / "model.safetensors").write_bytes(b"half")
    assert main([str(run), "--out", str(tmp_path / "out")]) == 3
    assert "no whole safetensors file" in capsys.readouterr().err
    assert not any("out" in path.name for path in tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_vllm_serves_an_export(run: Path, tmp_path: Path) -> None:
    """In a process of its own, which is how a person would use it."""
    import subprocess
    import sys

    assert main([str(run), "--out", str(tmp_path / "out")]) == 0
    program = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\n"
        "from lego_core.config import EngineConfig\n"
        "from lego_core.inference.engine import VllmEngine\n"
        "from lego_core.inference.spec import EngineSpec\n"
        "from lego_core.inference.vllm_calls import environment\n"
        "os.environ.update(environment())\n"
        "async def serve():\n"
        "    config = EngineConfig(dtype='float32', max_model_len=512)\n"
        "    engine = VllmEngine(EngineSpec(model_dir=Path(sys.argv[1]), config=config))\n"
        "    await engine.start()  # the canary compares it with transformers\n"
        "    await engine.close()\n"
        "asyncio.run(serve())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "out")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_integer_tensors_keep_their_type(tmp_path: Path) -> None:
    """Buffers that are no numbers of the model keep their type."""
    from lego_core.training.export import export_checkpoint

    checkpoint = tmp_path / "00001"
    checkpoint.mkdir()
    (checkpoint / "config.json").write_text('{"dtype": "bfloat16"}')
    save_file(
        {"steps": torch.tensor([3]), "w": torch.ones(2, 2)},
        checkpoint / "model.safetensors",
        metadata={"format": "pt"},
    )
    export_checkpoint(checkpoint, tmp_path / "out", card="")
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    assert (tensors["steps"].dtype, tensors["w"].dtype) == (torch.int64, torch.bfloat16)
