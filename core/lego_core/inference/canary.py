"""The proof, at every start, that an engine computes with the weights that were pushed to it.

    start on other weights, probe
    push the model's own, probe        ⇒ equal to transformers on those weights
    push the other ones, probe         ⇒ ids, log-probabilities and routes identical to the first probe, bit by bit
    push the model's own again, probe  ⇒ identical to the second

A reload that goes wrong raises nothing and gives plausible answers, so it must be looked for. The other weights are the
model's with noise in every tensor. Transformers is asked about the model's own, which is a function that rounding
barely moves: of a deep model with noise, bfloat16 makes another one. Invariant: afterwards the engine holds the
model's weights. Does not repair anything.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lego_core.model_config import vocab_size
from lego_harness.errors import EngineError
from lego_harness.types import GenerateRequest, Generation, Sampling

FP32_TOLERANCE = 1e-4
"""Largest |Δlogp| between an fp32 engine and transformers in fp32; measured about 3e-6."""
BF16_RATIO = 0.25
"""In bf16 rounding flips routes, so the engine only has to be closer to the pushed weights than those before are, by
this factor (mean |Δlogp|) …"""
BF16_MEAN_ERROR = 0.2
"""… and no farther away than this. Rounding alone has given 0.05 to 0.12 in a peaky policy, experts that arrived in the
wrong layout 0.6."""


class Probed(Protocol):
    """What the canary needs of an engine."""

    async def generate(self, request: GenerateRequest) -> Generation: ...

    async def publish(self, path: Path, version: int, /) -> None: ...


@contextmanager
def other_weights(model_dir: Path) -> Iterator[Path]:
    """The checkpoint to start an engine on that is to be checked; on tmpfs where there is one, gone with the context."""
    with tempfile.TemporaryDirectory(prefix="lego-canary-", dir=scratch_dir()) as scratch:
        yield perturbed_copy(model_dir, Path(scratch) / "other")


async def check_engine(engine: Probed, model_dir: Path, other: Path, *, dtype: str) -> None:
    """Raise EngineError unless `engine`, freshly started on `other`, takes exactly the weights that it is given."""
    vocab = vocab_size(model_dir)
    first = await _probe(engine, vocab)
    await engine.publish(model_dir, 0)
    own = await _probe(engine, vocab)
    await _require_recomputed(own, model_dir, other, vocab, dtype)
    await engine.publish(other, 0)
    _require_identical(first, await _probe(engine, vocab), "pushing the weights it had started with")
    await engine.publish(model_dir, 0)
    _require_identical(own, await _probe(engine, vocab), "pushing the model's weights once more")


def scratch_dir() -> Path | None:
    """tmpfs where there is one, else the system's default."""
    shm = Path("/dev/shm")
    return shm if shm.is_dir() else None


def perturbed_copy(model_dir: Path, target: Path) -> Path:
    """A checkpoint whose every tensor differs from `model_dir`'s by seeded noise; returns `target`."""
    import torch
    from safetensors.torch import load_file, save_file

    target.mkdir()
    for file in (model_dir / "config.json", *model_dir.glob("*.index.json")):
        shutil.copy(file, target)
    noise = torch.Generator().manual_seed(0)
    for file in sorted(model_dir.glob("*.safetensors")):
        tensors = load_file(file)
        for name, tensor in tensors.items():
            step = torch.randn(tensor.shape, generator=noise) * tensor.float().std().clamp(min=0.02) * 0.3
            tensors[name] = (tensor.float() + step).to(tensor.dtype)
        save_file(tensors, target / file.name, metadata={"format": "pt"})
    return target


def reference_logprobs(
    model_dir: Path, context: NDArray[np.int32], ids: NDArray[np.int32]
) -> NDArray[np.float64]:
    """`[m]` log-probabilities of `ids` after `context` by transformers, fp32, temperature 1."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=torch.float32)
    tokens = torch.from_numpy(np.concatenate([context, ids]).astype(np.int64))[None]
    with torch.inference_mode():
        logits = model(tokens, use_cache=False).logits[0, len(context) - 1 : -1]
    logprobs = torch.log_softmax(logits.double(), -1)
    return logprobs.gather(-1, tokens[0, len(context) :, None])[:, 0].numpy()


def _context(vocab: int) -> NDArray[np.int32]:
    return np.random.default_rng(0).integers(0, vocab, 40).astype(np.int32)


async def _probe(engine: Probed, vocab: int) -> Generation:
    request = GenerateRequest(
        request_id="canary",
        context_ids=_context(vocab),
        sampling=Sampling(temperature=1.0, max_tokens=32, seed=7),
        stop_ids=(),
    )
    return await engine.generate(request)


def _require_identical(before: Generation, after: Generation, what: str) -> None:
    same_ids = np.array_equal(before.ids, after.ids)
    same_logprobs = np.array_equal(before.logprobs, after.logprobs)
    same_routes = (before.routes is None) == (after.routes is None) and (
        before.routes is None or after.routes is None or np.array_equal(before.routes, after.routes)
    )
    if same_ids and same_logprobs and same_routes:
        return
    moved = float(np.abs(before.logprobs[:1] - after.logprobs[:1]).max())
    raise EngineError(
        f"weight canary: {what} changed the engine's answer (first log-probability by {moved:.2g}), expected it "
        "identical: this engine build reloads experts wrongly and cannot be trained with"
    )


async def _require_recomputed(own: Generation, model_dir: Path, other: Path, vocab: int, dtype: str) -> None:
    context = _context(vocab)
    wanted = await asyncio.to_thread(reference_logprobs, model_dir, context, own.ids)
    error = np.abs(own.logprobs - wanted)
    if dtype == "float32":
        got, bound = float(error.max()), FP32_TOLERANCE
    else:
        before = await asyncio.to_thread(reference_logprobs, other, context, own.ids)
        moved = float(np.abs(before - wanted).mean())
        got, bound = float(error.mean()), min(BF16_RATIO * moved, BF16_MEAN_ERROR)
    if not got <= bound:
        raise EngineError(
            f"weight canary: after new weights were pushed the engine's log-probabilities are {got:.2g} away from "
            f"transformers on the same weights, expected at most {bound:.2g}: the update did not arrive whole"
        )
