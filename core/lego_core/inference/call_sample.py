"""A direct call to an engine as a training sample, to compare engine and trainer without a harness. Pure."""

from __future__ import annotations

import numpy as np

from lego_core.types import Sample
from lego_harness.types import GenerateRequest, Generation


def as_sample(call: GenerateRequest, reply: Generation, *, advantage: float) -> Sample:
    """A call and its answer, its routes replayed; the last position has none."""
    n, m = len(call.context_ids), len(reply.ids)
    logprobs = np.zeros(n + m, np.float32)
    logprobs[n:] = reply.logprobs
    routes = reply.routes
    if routes is not None:
        routes = np.concatenate([routes, np.full((1, *routes.shape[1:]), -1, routes.dtype)])
    return Sample(
        rollout_id=call.request_id,
        ids=np.concatenate([call.context_ids, reply.ids]),
        mask=np.arange(n + m) >= n,
        rollout_logprobs=logprobs,
        advantage=advantage,
        routes=routes,
    )
