"""An optimizer step beside TRL's: tokens a second and memory, on the same model, samples and threads.

    python -m benchmarks.step           all sizes, as Markdown
    python -m benchmarks.step --check   exit 1 where an aim is missed
    python -m benchmarks.step --quick   the smallest of them, cut down to a minute

GSPO, its clip and AdamW in fp32, activations computed again in backward, as many tokens in a forward pass. TRL is
its GRPOTrainer with importance sampling by sequence, in an environment of its own on top of our packages. Both say
the norm of their first gradient: it must be the same step that is measured. Memory is what the process takes at most
beyond the loaded model. Each program runs by itself, with all cores; ours in the environment that a run gives its
trainer.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.contestants import HERE, environment
from benchmarks.processes import ROOT, module, paths_of_ours
from benchmarks.step_work import Size, multiplications, prepare, shape
from lego_core.training.ray_trainer import environment as trainer_environment

SIZES = (
    Size(length=2048, vocab=32_768, num_rollouts=8, rows=8),
    Size(length=8192, vocab=32_768, num_rollouts=4, rows=2),
    Size(length=32_768, vocab=4096, num_rollouts=2, rows=1),
)
QUICK = (Size(length=1024, vocab=32_768, num_rollouts=8, rows=4),)
SAME = 1e-3
"""Relative difference of gradient norms that the order of sums explains."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One trainer at one size."""

    name: str
    size: Size
    tokens_per_s: float
    peak: int
    """Bytes."""
    norm: float
    share: float
    """Of what matrix products do at most here."""


def measure(sizes: tuple[Size, ...] = SIZES) -> list[Row]:
    """Ours and TRL's, one after the other. Raises RuntimeError where they did not compute the same step."""
    rows: list[Row] = []
    for size in sizes:
        with tempfile.TemporaryDirectory(prefix="lego-step-") as folder:
            prepare(Path(folder), size)
            rows += _rows(Path(folder), size)
    return rows


def _rows(work: Path, size: Size) -> list[Row]:
    threads, steps = len(os.sched_getaffinity(0)), str(size.steps)
    tokens = str(size.rows * size.length)
    argv = module("benchmarks.step_lego", str(work), steps, tokens, str(threads))
    ours = _run(argv, trainer_environment(threads))
    python = environment("trl", on_ours=True)
    trl = _run([python, str(HERE / "step_trl.py"), str(work), steps, str(size.rows), str(threads)], {})
    if abs(trl["norm"] / ours["norm"] - 1) > SAME:
        raise RuntimeError(f"{size}: gradients of norm {ours['norm']:.6g}, and TRL's {trl['norm']:.6g}")
    return [_row("Lego-RL", size, work, ours, ours["limit"]), _row("TRL", size, work, trl, ours["limit"])]


def _run(argv: list[str], more: dict[str, str]) -> dict[str, Any]:
    env = {**paths_of_ours(), "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE", **more}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _row(name: str, size: Size, work: Path, found: dict[str, Any], limit: float) -> Row:
    lengths, prompts = shape(work)
    seconds = min(found["seconds"])
    return Row(
        name=name,
        size=size,
        tokens_per_s=sum(lengths) / seconds,
        peak=found["peak"],
        norm=found["norm"],
        share=multiplications(work / "model", lengths, prompts) / seconds / limit,
    )


def report(rows: list[Row]) -> str:
    """As Markdown."""
    lines = [
        "| trainer | tokens a rollout | vocabulary | tokens/s | × TRL's | MiB | × TRL's | of the matmul limit |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    trl = {row.size: row for row in rows if row.name == "TRL"}
    for row in rows:
        other = trl[row.size]
        lines.append(
            f"| {row.name} | {row.size.length:,} | {row.size.vocab:,} | {row.tokens_per_s:,.0f} "
            f"| {row.tokens_per_s / other.tokens_per_s:.2f} | {row.peak / 2**20:,.0f} "
            f"| {row.peak / other.peak:.2f} | {row.share:.0%} |"
        )
    return "\n".join(lines)


def verdicts(rows: list[Row]) -> list[tuple[str, bool]]:
    """What was aimed at, and whether it was reached."""
    trl = {row.size: row for row in rows if row.name == "TRL"}
    ours = [row for row in rows if row.name != "TRL"]
    speed = [row.tokens_per_s / trl[row.size].tokens_per_s for row in ours]
    memory = [row.peak / trl[row.size].peak for row in ours]
    return [
        (f"at least 1.5 times TRL's tokens a second: {_listed(speed)}", min(speed) >= 1.5),
        (f"at most 0.6 times TRL's memory: {_listed(memory)}", max(memory) <= 0.6),
    ]


def _listed(ratios: list[float]) -> str:
    return ", ".join(f"{ratio:.2f}" for ratio in ratios)


if __name__ == "__main__":
    measured = measure(QUICK if "--quick" in sys.argv else SIZES)
    aims = verdicts(measured)
    sys.stdout.write(report(measured) + "\n\n")
    sys.stdout.writelines(f"- {'reached' if ok else 'MISSED'}: {what}\n" for what, ok in aims)
    sys.exit(int("--check" in sys.argv and not all(ok for _, ok in aims)))
