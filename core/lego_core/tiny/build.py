"""Builds the tiny policy's checkpoint folder, or finds it built.

Owns the cache `${LEGO_CACHE:-~/.cache/lego-rl}/tiny/KEY`. Invariants: the key covers every input
(harness, configuration, the code of this package and of the tasks, library versions, the machine's
name as harnesses print it); a folder under its final name is complete; it passed the gate.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

import torch
from transformers import Qwen3MoeForCausalLM

from lego_core.tiny.demonstrations import Demonstrator, corpus
from lego_core.tiny.model import new_model
from lego_core.tiny.recorder import record
from lego_core.tiny.recording import Recording, episode_form
from lego_core.tiny.script import SCRIPTS
from lego_core.tiny.tokenizer import train_tokenizer
from lego_core.tiny.warmup import Measured, WarmupConfig, measure, warm_up
from lego_harness.adapters.base import Adapter
from lego_harness.errors import SetupError
from lego_harness.output import writing
from lego_harness.registry import get_adapter
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.tasks import synth, synth_words

ATTEMPTS = 3
SOLVE_RATES = (0.28, 0.52)
"""Gate on held-out tasks at temperature 0.7: something to learn, and something to build on."""
MIN_VALID, MIN_READ = 0.9, 0.95

Report = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """A policy that passed the gate."""

    folder: Path
    measured: Measured
    is_new: bool


async def build(
    harness: str,
    backend: SandboxBackend,
    *,
    seed: int = 0,
    out: Path | None = None,
    is_fresh: bool = False,
    config: WarmupConfig | None = None,
    report: Report = lambda line: None,
) -> Built:
    """The checkpoint folder of a harness's tiny policy; builds it unless the cache has it.

    `out` puts it elsewhere than in the cache, `is_fresh` builds it even so. Raises SetupError when
    `ATTEMPTS` warm-ups missed the gate.
    """
    adapter = get_adapter(harness)
    config = replace(config or WarmupConfig(), seed=seed)
    folder = out or _cache() / _key(adapter, config)
    if folder.is_dir() and not is_fresh:
        return Built(folder=folder, measured=_read_measured(folder), is_new=False)
    with writing(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)  # told before anything is recorded
    await adapter.check()
    report(f"recording {harness} {adapter.version} on two probe tasks")
    recording = await record(adapter, backend)
    with writing(folder):
        measured = await asyncio.to_thread(_build_into, folder, recording, config, report)
    return Built(folder=folder, measured=measured, is_new=True)


def _build_into(folder: Path, recording: Recording, config: WarmupConfig, report: Report) -> Measured:
    """Build beside the final place and move there at once."""
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        measured = _build(unfinished, recording, config, report)
        (unfinished / "tiny.json").write_text(
            json.dumps(
                {"harness": recording.harness, "warmup": asdict(config), "measured": asdict(measured)},
                indent=1,
            )
        )
        unfinished.chmod(0o755)
        if folder.is_dir():
            shutil.rmtree(folder)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return measured


def _build(folder: Path, recording: Recording, config: WarmupConfig, report: Report) -> Measured:
    form, script = episode_form(recording), SCRIPTS[recording.harness]
    tokenizer = train_tokenizer(corpus(form, script, seed=0), form.boilerplate())
    demonstrator = Demonstrator(form=form, script=script, tokenizer=tokenizer)
    misses: list[Measured] = []
    while len(misses) < ATTEMPTS:
        model, measured = _attempt(
            demonstrator, replace(config, seed=config.seed + 1000 * len(misses)), report
        )
        if _passes(measured):
            model.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            return measured
        misses.append(measured)
        report(f"the warmed policy missed the gate: {measured}")
    raise SetupError(
        f"the tiny policy for {recording.harness} missed its gate {ATTEMPTS} times, last {misses[-1]}; "
        f"expected solve rate in {SOLVE_RATES}, valid ≥ {MIN_VALID}, read ≥ {MIN_READ}; try another seed"
    )


def _attempt(
    demonstrator: Demonstrator, config: WarmupConfig, report: Report
) -> tuple[Qwen3MoeForCausalLM, Measured]:
    total = config.sure_steps + config.doubt_steps

    def on_step(step: int, loss: float) -> None:
        if step % 20 == 0 or step == 1:
            report(f"warm-up step {step}/{total}, loss {loss:.3f}")

    model = new_model(demonstrator.tokenizer, seed=config.seed)
    warm_up(model, demonstrator, config, on_step)
    measured = measure(model, demonstrator, num_tasks=256, temperature=0.7, seed=0)
    report(
        f"held-out, simulated: solved {measured.solve_rate:.0%}, well-formed {measured.valid_rate:.0%}, "
        f"read {measured.read_rate:.0%} of {measured.num_tasks}"
    )
    return model, measured


def _passes(measured: Measured) -> bool:
    low, high = SOLVE_RATES
    is_formed = measured.valid_rate >= MIN_VALID and measured.read_rate >= MIN_READ
    return is_formed and low <= measured.solve_rate <= high


def _read_measured(folder: Path) -> Measured:
    return Measured(**json.loads((folder / "tiny.json").read_text())["measured"])


def _cache() -> Path:
    return Path(os.environ.get("LEGO_CACHE") or Path.home() / ".cache" / "lego-rl") / "tiny"


def _key(adapter: Adapter, config: WarmupConfig) -> str:
    sources = sorted(Path(__file__).parent.glob("*.py"))
    sources += [Path(str(module.__file__)) for module in (synth, synth_words)]
    parts = [adapter.name, adapter.version, repr(config), repr(platform.uname()[2:]), torch.__version__]
    parts += [version("transformers"), version("tokenizers"), *(path.read_text() for path in sources)]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"{adapter.name}-{config.seed}-{digest[:16]}"
