"""What an engine has to serve, the same for every kind of engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lego_core.config import EngineConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class EngineSpec:
    """What to serve; plain values, so that it can be sent to another process."""

    model_dir: Path
    config: EngineConfig
    routes: bool = True
    """Return routed experts; needs a sparse model."""
    num_threads: int = 1
    worker_extension: str = "lego_core.inference.vllm_worker.WorkerExtension"
    """Where vLLM's worker finds the weight-transfer backend."""
