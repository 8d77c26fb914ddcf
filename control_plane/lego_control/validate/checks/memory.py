"""Memory: an estimate of what engine, trainer and sandboxes take, against what is free."""

from __future__ import annotations

from pathlib import Path

from lego_control.validate.base import Broken, Ground
from lego_control.validate.model import model_dir, weight_bytes

GIB = 2**30
PROCESS_GIB = 1.0
"""Python, torch and libraries of one process."""
SANDBOX_GIB = 0.3
COPIES = 5
"""Copies of the weights in fp32: policy, reference, gradient and Adam's two moments."""
MEMINFO = Path("/proc/meminfo")


def run(ground: Ground) -> str:
    recipe = ground.recipe
    folder = model_dir(ground)
    weights = weight_bytes(folder) / GIB if folder else 0.02
    processes = 3 + recipe.rollout.num_workers
    wanted = (
        weights * (COPIES * 2 + 1)  # files are half as wide as fp32, or more
        + recipe.engine.kv_cache_gb
        + PROCESS_GIB * processes
        + SANDBOX_GIB * recipe.rollout.num_workers * recipe.rollout.concurrency
    )
    free = free_gib()
    if wanted > free:
        raise Broken(
            f"a run takes about {wanted:.1f} GiB, {free:.1f} GiB are free",
            "lower engine.kv_cache_gb or rollout.concurrency, or take a larger machine",
        )
    return f"about {wanted:.1f} GiB of {free:.1f} GiB that are free"


def free_gib() -> float:
    """Memory that the kernel says is available without swapping."""
    lines = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines() if ":" in line)
    return int(lines["MemAvailable"].split()[0]) * 1024 / GIB
