"""How vLLM is set up and called, and how its answers are read.

Owns every argument that is passed to vLLM, and the reason for it. Invariant: an answer is read completely, or an
EngineError says what was missing. Holds no engine; imports vllm only when called.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lego_core.inference.spec import EngineSpec
from lego_core.inference.weight_sync import BACKEND
from lego_core.model_config import read_config
from lego_harness.errors import EngineError
from lego_harness.types import GenerateRequest, Generation, Routes, routes_dtype


def environment(num_threads: int = 1) -> dict[str, str]:
    """Variables that must be set before vllm is imported. Pinned or many threads collapse next to a busy neighbour;
    compilation costs 20 s on the first request and gains nothing at this size."""
    return {
        "OMP_NUM_THREADS": str(num_threads),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # else vLLM turns "uni" into one more process on a CPU
        "TORCH_COMPILE_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "TOKENIZERS_PARALLELISM": "false",
    }


def build_llm(spec: EngineSpec) -> Any:
    """An AsyncLLM over the checkpoint of `spec`. Raises whatever vLLM raises."""
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.platforms import current_platform
    from vllm.v1.engine.async_llm import AsyncLLM

    on_cpu = current_platform.is_cpu()
    args = AsyncEngineArgs(
        model=str(spec.model_dir),
        skip_tokenizer_init=True,
        dtype=spec.config.dtype,
        max_model_len=spec.config.max_model_len,
        max_num_seqs=spec.config.max_num_seqs,
        kv_cache_memory_bytes=int(spec.config.kv_cache_gb * 2**30),
        enforce_eager=on_cpu,
        # A seeded request whose prefill is split kills vLLM's CPU worker (its generators cannot be
        # rewound), so there every prompt fits one batch.
        enable_chunked_prefill=not on_cpu,
        max_num_batched_tokens=max(spec.config.max_model_len, 4096) if on_cpu else None,
        distributed_executor_backend="uni",
        # To cache the state of layers with a recurrent one, vLLM has to split prefills.
        enable_prefix_caching=not (on_cpu and _is_hybrid(spec.model_dir)),
        enable_return_routed_experts=spec.routes,
        logprobs_mode="processed_logprobs",
        generation_config="vllm",
        worker_extension_cls=spec.worker_extension,
        # Declared as vLLM's own class, which vLLM itself makes of a dict.
        weight_transfer_config={"backend": BACKEND},  # type: ignore[arg-type]
        disable_log_stats=True,
    )
    return AsyncLLM.from_engine_args(args)


def _is_hybrid(model_dir: Path) -> bool:
    return "linear_attention" in read_config(model_dir).get("layer_types", ())


def sampling_params(request: GenerateRequest, spec: EngineSpec) -> Any:
    """A call's sampling in vLLM's own form; raises EngineError if its context leaves no room for a reply."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    room = spec.config.max_model_len - len(request.context_ids)
    if room < 1:
        raise EngineError(
            f"call {request.request_id} has {len(request.context_ids)} context ids, expected fewer than "
            f"engine.max_model_len = {spec.config.max_model_len}"
        )
    sampling = request.sampling
    return SamplingParams(
        temperature=sampling.temperature,
        top_p=sampling.top_p,
        top_k=max(sampling.top_k, 0),
        max_tokens=min(sampling.max_tokens, room),
        seed=sampling.seed,
        stop_token_ids=list(request.stop_ids),
        ignore_eos=True,  # stop_ids is the whole truth: a checkpoint's own list does not add to it
        logprobs=0,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
        routed_experts_prompt_start=request.routes_from,
    )


def as_generation(request: GenerateRequest, output: Any, version: int, num_experts: int) -> Generation:
    """What vLLM sampled, stamped with `version`; without routes if `num_experts` is 0. Raises EngineError if
    something is missing."""
    ids = np.asarray(output.token_ids, np.int32)
    if output.finish_reason not in ("stop", "length", "abort") or len(ids) == 0:
        raise EngineError(
            f"call {request.request_id} ended as {output.finish_reason!r} with {len(ids)} ids, "
            "expected stop, length or abort and at least one id"
        )
    logprobs = [entry[int(i)].logprob for entry, i in zip(output.logprobs, ids, strict=True)]
    return Generation(
        ids=ids,
        logprobs=np.asarray(logprobs, np.float32),
        routes=_routes(request, output, len(ids), num_experts) if num_experts else None,
        finish_reason=output.finish_reason,
        policy_version=version,
    )


def _routes(request: GenerateRequest, output: Any, num_sampled: int, num_experts: int) -> Routes:
    expected = len(request.context_ids) + num_sampled - 1 - request.routes_from
    routes = output.routed_experts
    if routes is None or routes.ndim != 3 or len(routes) != expected:
        got = "none" if routes is None else f"shape {routes.shape}"
        raise EngineError(
            f"call {request.request_id} returned routes of {got}, expected [{expected}, layers, k]"
        )
    return routes.astype(routes_dtype(num_experts))
