"""How long new weights take from the trainer to a real engine, and how many bytes: all of them, what changed, and a
broadcast of all.

    python -m benchmarks.weight_sync    as Markdown

A Qwen3-MoE of 23 million parameters, trained in fp32 at the paper's learning rate and served in bf16. Writing is the
trainer's export; taking is the engine's, from the call to the first one that it may answer again. A broadcast goes over
gloo and writes its file meanwhile, so both are one time.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file

from lego_core.config import EngineConfig, TrainConfig
from lego_core.inference.engine import VllmEngine
from lego_core.inference.engine_actor import EngineActor, StartableEngine
from lego_core.inference.spec import EngineSpec
from lego_core.inference.vllm_calls import environment
from lego_core.weight_broadcast import Meeting
from lego_core.weight_files import engine_type

if TYPE_CHECKING:
    from lego_core.training.trainer import Trainer

TIMES = 5
SHAPE = {"vocab": 32_768, "layers": 4, "hidden": 256, "experts": 32, "init_std": 0.02}
SAMPLES = 8
DTYPE = "bfloat16"
WAYS: dict[str, dict[str, Any]] = {
    "all weights": {},
    "what changed": {"changes_in": DTYPE},
    "all weights, broadcast": {"is_broadcast": True},
}
"""And what a trainer is told of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """Medians of one way."""

    name: str
    size: int
    """Bytes."""
    write_s: float
    take_s: float


async def measure(
    folder: Path,
    shape: dict[str, Any] = SHAPE,
    times: int = TIMES,
    kind: Callable[[EngineSpec], StartableEngine] = VllmEngine,
) -> list[Row]:
    """All ways, at one engine."""
    from tests.support.tiny_model import build_random_model

    model = build_random_model(folder / "model", **shape)
    config = EngineConfig(dtype=DTYPE, max_model_len=512, kv_cache_gb=0.2)
    engine = EngineActor(kind, EngineSpec(model_dir=model, config=config), folder)
    await engine.start()
    try:
        return [await _row(engine, model, shape, name, way, times) for name, way in WAYS.items()]
    finally:
        await engine.close()


async def _row(
    engine: EngineActor, model: Path, shape: dict[str, Any], name: str, way: dict[str, Any], times: int
) -> Row:
    from lego_core.training.trainer import Trainer, TrainerSpec
    from tests.support.samples import random_sample

    threads = len(os.sched_getaffinity(0))
    config = TrainConfig(learning_rate=1e-6, kl_coef=0.0)
    spec = TrainerSpec(model_dir=model, config=config, temperature=1.0, num_threads=threads, **way)
    trainer, file = Trainer(spec), model.parent / "exported"
    found: list[tuple[int, float, float]] = []
    for step in range(1, times + 2):
        samples = [
            random_sample(
                f"r{i}",
                256,
                seed=step * SAMPLES + i,
                advantage=(-1.0) ** i,
                layers=shape["layers"],
                experts=shape["experts"],
            )
            for i in range(SAMPLES)
        ]
        trainer.train_step(samples, step)
        start = time.perf_counter()
        trainer.export(file)
        written = time.perf_counter()
        await _take(engine, trainer, file, step, spec.is_broadcast)
        taken = time.perf_counter() - written
        found.append((_size(file, spec.is_broadcast), written - start, taken))
    sizes, writes, takes = zip(*found[1:], strict=True)  # the first file of a trainer is all weights
    return Row(
        name=name,
        size=int(statistics.median(sizes)),
        write_s=statistics.median(writes),
        take_s=statistics.median(takes),
    )


async def _take(engine: EngineActor, trainer: Trainer, file: Path, step: int, is_broadcast: bool) -> None:
    from torch.distributed import TCPStore  # pyright: ignore[reportPrivateImportUsage] (documented, not in __all__)

    if not is_broadcast:
        await engine.publish(file, step)
        return
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    meeting = Meeting(host="127.0.0.1", port=store.port, size=2, dtype=DTYPE, timeout_s=600.0)
    sending = asyncio.to_thread(trainer.broadcast, meeting, store)
    await asyncio.gather(sending, engine.publish(file, step, replace(meeting, rank=1)))


def _size(file: Path, is_broadcast: bool) -> int:
    """Bytes that were sent: all in the engine's type in a broadcast, as the trainer holds them in a whole file."""
    if not is_broadcast:
        return file.stat().st_size
    return sum(t.numel() * engine_type(t, torch.bfloat16).itemsize for t in load_file(file).values())


def report(rows: list[Row]) -> str:
    """As Markdown."""
    lines = ["| sent | MiB | written in ms | taken in ms |", "| --- | ---: | ---: | ---: |"]
    lines += [
        f"| {row.name} | {row.size / 2**20:.1f} | {row.write_s * 1000:.0f} | {row.take_s * 1000:.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    os.environ.update(environment())
    with tempfile.TemporaryDirectory(prefix="lego-sync-") as scratch:
        sys.stdout.write(report(asyncio.run(measure(Path(scratch)))) + "\n")
