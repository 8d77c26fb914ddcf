"""A small engine for machines without a fitting vLLM wheel: transformers, one call at a time.

It keeps the promises of `VllmEngine` (processed log-probabilities, routes, versions, canary at start) at a
fraction of its speed; a caller that picks it says so. Shares no code with the trainer, so that their
agreement remains evidence. Calls run in a thread, in order of arrival.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lego_core.inference.busy import BusyClock
from lego_core.inference.canary import check_engine, other_weights
from lego_core.inference.spec import EngineSpec
from lego_core.weight_broadcast import Meeting, receive
from lego_core.weight_files import write_weights
from lego_harness.errors import EngineError
from lego_harness.types import GenerateRequest, Generation, Sampling, routes_dtype

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)
class _Call:
    """Set from the event loop, read by the sampling thread."""

    cancelled: bool = False


class TorchEngine:
    """Autoregressive sampling with a key-value cache, without batching."""

    kind = "torch"

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._turn = asyncio.Lock()
        self._version = 0
        self._model: Any = None
        self._routes: list[torch.Tensor] = []
        self._calls: dict[str, _Call] = {}
        self._busy = BusyClock()

    async def start(self) -> None:
        """Load the model and prove it with the canary; raises EngineError."""
        import torch

        torch.set_num_threads(self._spec.num_threads)
        with other_weights(self._spec.model_dir) as other:
            await self.publish(other, 0)
            await check_engine(self, self._spec.model_dir, other, dtype=self._spec.config.dtype)

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample until a stop id or `max_tokens`; cancelling frees the work."""
        if self._model is None:
            raise EngineError(f"call {request.request_id} refused: the engine is not running; start it")
        call = self._calls[request.request_id] = _Call()
        try:
            with self._busy:
                async with self._turn:
                    work = asyncio.create_task(asyncio.to_thread(self._sample, request, call))
                    return await self._until_the_thread_ends(work, call)
        finally:
            self._calls.pop(request.request_id, None)

    async def _until_the_thread_ends(self, work: asyncio.Task[Generation], call: _Call) -> Generation:
        """A cancelled call keeps its turn until its thread has noticed: the model is not shared."""
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            call.cancelled = True
            await work
            raise

    async def abort(self, request_id: str) -> None:
        """Free a call's work; unknown ids are ignored."""
        if call := self._calls.get(request_id):
            call.cancelled = True

    async def publish(self, weights: Path | Meeting, version: int) -> None:
        """Replace the weights, between two calls."""
        async with self._turn:
            self._model = await asyncio.to_thread(self._load, weights)
            self._version = version

    @property
    def is_dead(self) -> bool:
        """Nothing to watch: it has no process that could end without this one."""
        return False

    async def health(self) -> dict[str, Any]:
        """As `VllmEngine.health`."""
        return {
            "pid": os.getpid(),
            "policy_version": self._version,
            "kind": self.kind,
            "busy_s": self._busy.seconds(),
        }

    async def close(self) -> None:
        """Forget the model; idempotent."""
        self._model = None

    def _load(self, weights: Path | Meeting) -> Any:
        import torch

        if isinstance(weights, Path) and weights.is_dir():
            return self._hooked(weights)
        with tempfile.TemporaryDirectory(prefix="lego-weights-") as folder:
            # transformers loads folders: the model's configuration next to the new weights
            (Path(folder) / "config.json").symlink_to((self._spec.model_dir / "config.json").resolve())
            file = Path(folder) / "model.safetensors"
            if isinstance(weights, Path):
                file.symlink_to(weights.resolve())
            else:  # what is written shares no memory
                write_weights({n: t.clone() for n, t in receive(weights, torch.device("cpu"))}, file)
            return self._hooked(Path(folder))

    def _hooked(self, folder: Path) -> Any:
        import torch
        from transformers import AutoModelForCausalLM

        dtype = getattr(torch, self._spec.config.dtype)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).eval()
        for layer in model.model.layers:
            if hasattr(layer.mlp, "gate"):
                layer.mlp.gate.register_forward_hook(lambda _m, _i, out: self._routes.append(out[2]))
        return model

    def _sample(self, request: GenerateRequest, call: _Call) -> Generation:
        import torch

        n, limit = len(request.context_ids), self._spec.config.max_model_len
        if n >= limit:
            raise EngineError(f"call {request.request_id} has {n} context ids, expected fewer than {limit}")
        random = torch.Generator().manual_seed(request.sampling.seed or 0)
        ids: list[int] = []
        logprobs: list[float] = []
        rows: list[torch.Tensor] = []
        cache, tokens = None, torch.from_numpy(request.context_ids.astype(np.int64))[None]
        reason = "length"
        with torch.inference_mode():
            for _ in range(min(request.sampling.max_tokens, limit - n)):
                self._routes.clear()
                output = self._model(tokens, cache=cache, use_cache=True)
                cache = output.cache
                rows.append(torch.stack(self._routes, 1) if self._routes else torch.empty(0))
                logp = processed_logprobs(output.logits[0, -1], request.sampling)
                token = _draw(logp, request.sampling, random)
                ids.append(token)
                logprobs.append(float(logp[token]))
                tokens = torch.tensor([[token]])
                if token in request.stop_ids or call.cancelled:
                    reason = "abort" if call.cancelled else "stop"
                    break
        routes = None
        if self._spec.routes:
            experts = torch.cat(rows)[request.routes_from :].numpy()
            routes = experts.astype(routes_dtype(self._model.config.num_experts))
        return Generation(
            ids=np.asarray(ids, np.int32),
            logprobs=np.asarray(logprobs, np.float32),
            routes=routes,
            finish_reason=reason,
            policy_version=self._version,
        )


def processed_logprobs(logits: torch.Tensor, sampling: Sampling) -> torch.Tensor:
    """`[V]` fp32 log-probabilities after temperature, top-k and top-p; −inf where excluded."""
    import torch

    scaled = logits.float() / max(sampling.temperature, 1e-6)
    if sampling.top_k > 0:
        smallest = scaled.topk(min(sampling.top_k, len(scaled))).values[-1]
        scaled = scaled.masked_fill(scaled < smallest, -torch.inf)
    if sampling.top_p < 1:
        probs, order = scaled.softmax(-1).sort(descending=True)
        scaled[order[probs.cumsum(-1) - probs >= sampling.top_p]] = -torch.inf
    return scaled.log_softmax(-1)


def _draw(logp: torch.Tensor, sampling: Sampling, random: torch.Generator) -> int:
    if sampling.temperature == 0:
        return int(logp.argmax())
    return int(logp.exp().multinomial(1, generator=random))
