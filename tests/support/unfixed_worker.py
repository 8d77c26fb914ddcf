"""The planted defect: our weight-transfer backend on a vLLM that reloads CPU experts unpacked."""

from __future__ import annotations

from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod

_untouched = UnquantizedFusedMoEMethod._setup_kernel

from lego_core.inference.vllm_worker import WorkerExtension  # noqa: E402 (its import applies the repair)

UnquantizedFusedMoEMethod._setup_kernel = _untouched

__all__ = ["WorkerExtension"]
