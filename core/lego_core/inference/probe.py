"""The proof, after every weight sync, that each engine computes with the trainer's weights.

    publish k ─▶ every engine samples the probe ─▶ the trainer scores it ─▶ log-probabilities agree

The canary (`canary.py`) proves once that an engine can take weights; the probe proves each time that
they have arrived complete at every engine. Invariant: `publish` returns only after a probe that
agreed. Repairs nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lego_core.inference.broadcast import Broadcaster
from lego_core.inference.call_sample import as_sample
from lego_core.inference.canary import BF16_MEAN_ERROR
from lego_core.inference.pool import EnginePool, Replica
from lego_core.together import together
from lego_core.types import Sample
from lego_harness.errors import EngineError
from lego_harness.proxy.patience import PatientEngine
from lego_harness.types import GenerateRequest, Sampling

CONTEXT, SAMPLED = 40, 16
MAX_MEAN_ERROR = {"float32": 1e-3, "bfloat16": BF16_MEAN_ERROR}
"""Largest mean |Δlogp| by the engine's type; in fp32 both agree to 1e-6."""


class Scorer(Protocol):
    """The trainer, as far as a probe needs it."""

    async def score(self, sample: Sample) -> NDArray[np.float32]:
        """`[m]` log-probabilities of the sample's masked tokens under the current weights."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbedEngines:
    """`lego_core.controller.Engines`: a pool that proves every publish."""

    pool: EnginePool
    scorer: Scorer
    vocab: int
    dtype: str
    temperature: float
    """The sampler's and the trainer's."""
    broadcaster: Broadcaster | None = None
    """What brings new weights to the pool, if it does not read them from a file."""

    async def publish(self, weights: Path, version: int) -> None:
        """Serve and prove `weights`; raises EngineError naming an engine that computes with others."""
        await (self.broadcaster or self.pool).publish(weights, version)
        await together(self._prove(engine, version) for engine in self.pool.engines)

    async def busy_s(self) -> float:
        return await self.pool.busy_s()

    async def pids(self) -> dict[str, int]:
        return await self.pool.pids()

    async def _prove(self, engine: Replica, version: int) -> None:
        request = self._request(version)
        reply = await PatientEngine(engine).generate(request)
        scored = await self.scorer.score(as_sample(request, reply, advantage=0.0))
        error = float(np.abs(reply.logprobs - scored).mean())
        bound = MAX_MEAN_ERROR[self.dtype]
        if reply.policy_version != version or not error <= bound:
            raise EngineError(
                f"weight sync: {engine.name} answered a probe of version {version} as version "
                f"{reply.policy_version}, {error:.2g} away from the trainer's log-probabilities, expected at "
                f"most {bound:g}: the weights did not arrive whole; resume the run"
            )

    def _request(self, version: int) -> GenerateRequest:
        random = np.random.default_rng(version)
        return GenerateRequest(
            request_id=f"probe.v{version}",
            context_ids=random.integers(0, self.vocab, CONTEXT).astype(np.int32),
            sampling=Sampling(temperature=self.temperature, max_tokens=SAMPLED, seed=version),
            stop_ids=(),
        )
