"""The vLLM engine of one process: ids in, ids out, weights by version.

    generate ──▶ AsyncLLM ──ipc──▶ EngineCore process (scheduler, model, KV cache)
    publish  ──▶ weight_sync ──▶ the same

A publish cuts the calls in flight; each continues under the new weights where it was cut (`partial.py`).

Invariant: every token of a `Generation` carries the policy version that sampled it, and its routes
have one row per input position asked for. At `start` the canary has proved that this engine
computes with the weights that were pushed. How vLLM is called is in `vllm_calls.py`. Runs inside a
Ray actor (`ray_engine.py`); knows nothing of Ray, text or rewards.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lego_core.inference.busy import BusyClock
from lego_core.inference.canary import check_engine, other_weights
from lego_core.inference.partial import joined, remaining
from lego_core.inference.spec import EngineSpec
from lego_core.inference.vllm_calls import as_generation, build_llm, sampling_params
from lego_core.inference.weight_sync import open_transfer, push_weights
from lego_core.weight_broadcast import Meeting
from lego_harness.errors import EngineError, LegoError
from lego_harness.types import GenerateRequest, Generation

_LOOK_EVERY_S = 1.0


@dataclass(slots=True)
class _Call:
    """A call in flight."""

    segment_id: str = ""
    """What vLLM knows it by at the moment."""
    is_aborted: bool = False
    """Its caller has given it up."""


class VllmEngine:
    """One AsyncLLM and the version of the weights it holds."""

    kind = "vllm"

    def __init__(self, spec: EngineSpec) -> None:
        self._spec = spec
        self._llm: Any = None
        self._version = 0
        self._broken = ""
        self._door = asyncio.Lock()
        """Held by a call while it enters vLLM and by a publish until its end: each call starts completely before a
        publish, which cuts it, or completely after it."""
        self._num_publishes = 0
        self._calls: dict[str, _Call] = {}
        self._busy = BusyClock()

    async def start(self) -> None:
        """Load other weights, then take the model's, as the canary wants it; raises EngineError. Takes about 30 s."""
        model_dir = self._spec.model_dir
        try:
            with other_weights(model_dir) as other:
                self._llm = build_llm(replace(self._spec, model_dir=other))
                await self._unless_it_dies(open_transfer(self._llm))
                await check_engine(self, model_dir, other, dtype=self._spec.config.dtype)
        except LegoError:
            raise
        except Exception as error:
            raise EngineError(f"vLLM could not serve {model_dir}: {_one_line(error)}") from error

    async def generate(self, request: GenerateRequest) -> Generation:
        """Sample until a stop id or `max_tokens`; cancelling frees the request."""
        call = self._calls[request.request_id] = _Call()
        try:
            with self._busy:
                async with self._call(f"call {request.request_id}"):
                    return await self._through_cuts(request, call)
        finally:
            del self._calls[request.request_id]

    async def _through_cuts(self, request: GenerateRequest, call: _Call) -> Generation:
        so_far, cuts, is_cut = None, 0, True
        while is_cut and not call.is_aborted:
            segment, is_cut = await self._segment(remaining(request, so_far, cuts), call)
            so_far = so_far if segment is None else joined(so_far, segment)
            cuts += 1
        if so_far is None:
            raise EngineError(f"call {request.request_id} was aborted before its first token")
        return so_far

    async def _segment(self, request: GenerateRequest, call: _Call) -> tuple[Generation | None, bool]:
        """What one version sampled of a call (None if nothing), and whether a publish cut it."""
        params = sampling_params(request, self._spec)
        async with self._door:
            self._require_usable(f"call {request.request_id}")
            if call.is_aborted:  # while it waited
                return None, False
            version, publish = self._version, self._num_publishes
            # The salt keeps a cached prefix to the weights that computed it.
            prompt = {"prompt_token_ids": request.context_ids.tolist(), "cache_salt": f"v{version}"}
            call.segment_id = request.request_id
            stream = await self._llm.add_request(request.request_id, prompt, params)
            if call.is_aborted:  # while vLLM did not know it yet
                await self._llm.abort(request.request_id)
        output = await self._last_output(stream, request.request_id)
        is_cut = output.finish_reason == "abort" and publish != self._num_publishes
        if output.finish_reason == "abort" and not output.token_ids:
            return None, is_cut
        return as_generation(request, output, version, self._num_experts()), is_cut

    async def _last_output(self, stream: Any, name: str) -> Any:
        """Its time is that of the segment alone, without the wait before entering vLLM."""
        limit_s = self._spec.config.timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return (stream.get_nowait() or await stream.get()).outputs[0]
        except TimeoutError:
            await self._llm.abort(stream.request_id, internal=True)
            raise EngineError(
                f"call {name} got no answer from vLLM within engine.timeout_s = {limit_s:g} s"
            ) from None
        except asyncio.CancelledError:
            await self._llm.abort(stream.request_id, internal=True)
            raise
        finally:
            stream.close()

    def _num_experts(self) -> int:
        """0 where no routes are wanted."""
        return self._llm.model_config.hf_text_config.num_experts if self._spec.routes else 0

    async def abort(self, request_id: str) -> None:
        """Free a call's work; unknown ids are ignored."""
        if call := self._calls.get(request_id):
            call.is_aborted = True
            await self._llm.abort(call.segment_id)

    async def publish(self, weights: Path | Meeting, version: int) -> None:
        """Replace the weights; calls in flight are cut and go on afterwards. A failure half-way ends this engine,
        because it may then hold a mixture."""
        async with self._door:
            self._num_publishes += 1
            await self._replace_weights(weights, version)

    async def _replace_weights(self, weights: Path | Meeting, version: int) -> None:
        if isinstance(weights, Path) and not await asyncio.to_thread(weights.exists):
            raise EngineError(f"publishing version {version} refused: there are no weights at {weights}")
        try:
            async with self._call(f"publishing version {version}"):
                await self._unless_it_dies(push_weights(self._llm, weights, version))
        except EngineError as error:
            self._broken = str(error)
            raise
        self._version = version

    async def _unless_it_dies(self, work: Awaitable[None]) -> None:
        """When vLLM's process ends, everything that waits for vLLM, except a generation, would wait for ever."""
        task = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait({task}, timeout=_LOOK_EVERY_S))[0]:
                if self.is_dead:
                    raise EngineError(f"the engine process of {self._spec.model_dir} ended")
            await task
        finally:
            task.cancel()

    @property
    def is_dead(self) -> bool:
        """vLLM's own process ended: only a new engine can answer."""
        return self._llm is not None and self._llm.errored

    async def health(self) -> dict[str, Any]:
        """`pid`, `policy_version`, `kind` and `busy_s`, seconds with a call in flight since the start;
        raises EngineError when the engine cannot answer."""
        async with self._call("the health check"):
            await self._llm.check_health()
        return {
            "pid": os.getpid(),
            "policy_version": self._version,
            "kind": self.kind,
            "busy_s": self._busy.seconds(),
        }

    async def close(self) -> None:
        """Stop the engine process; idempotent."""
        if self._llm is not None:
            await asyncio.to_thread(self._llm.shutdown)
            self._llm = None

    def _require_usable(self, what: str) -> None:
        if self._llm is None or self._broken:
            raise EngineError(
                f"{what} refused: {self._broken or 'the engine is not running'}; start a new engine"
            )

    @asynccontextmanager
    async def _call(self, what: str) -> AsyncIterator[None]:
        self._require_usable(what)
        try:
            yield
        except EngineError:
            raise
        except Exception as error:  # everything vLLM raises means: no generation
            raise EngineError(f"{what} failed in vLLM: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:500]}"
