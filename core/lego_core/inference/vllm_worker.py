"""What runs inside vLLM's worker: our weight-transfer backend, a repair of its CPU experts, and its end.

Weights arrive in checkpoint names: as one safetensors file (or a folder of them), on tmpfs where there is one, or
broadcast by the trainer. Invariant: after `finish_weight_update` the worker holds exactly those tensors.
Knows nothing of requests, versions or pausing: that is `weight_sync`'s work.

This module registers itself when imported. vLLM resolves `worker_extension_cls` right before it
builds the model and offers no other moment to add a backend in its own process; nothing else
imports this file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.layers.fused_moe.oracle.unquantized import UnquantizedMoeBackend
from vllm.model_executor.layers.fused_moe.unquantized_fused_moe_method import UnquantizedFusedMoEMethod
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from lego_core.inference.orphan import end_with_parent
from lego_core.inference.weight_sync import BACKEND
from lego_core.weight_broadcast import Meeting, receive


@dataclass
class TransferInit(WeightTransferInitInfo):
    """Nothing to agree on: every update names its file, or where the trainer broadcasts."""


@dataclass
class TransferUpdate(WeightTransferUpdateInfo):
    """One of both."""

    path: str | None = None
    meeting: dict[str, Any] | None = None
    """Fields of a `Meeting`."""


class Transfer(WeightTransferEngine[TransferInit, TransferUpdate]):
    """Brings a checkpoint's tensors through vLLM's layer-wise reload."""

    init_info_cls = TransferInit
    update_info_cls = TransferUpdate
    supports_draft_weight_update = False

    def init_transfer_engine(self, init_info: TransferInit) -> None:
        pass

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: TransferUpdate) -> None:
        model: Any = self.model
        model.load_weights(self._tensors(update_info))

    def _tensors(self, update_info: TransferUpdate) -> Iterator[tuple[str, torch.Tensor]]:
        if update_info.meeting is not None:
            return receive(Meeting(**update_info.meeting), self.device)
        return read_tensors(Path(update_info.path or ""))

    def update_weights(self, update_info: dict[str, Any]) -> None:
        # The base class synchronises an accelerator afterwards, which a CPU has not.
        self.receive_weights(self.parse_update_info(update_info))
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)

    def shutdown(self) -> None:
        pass


def read_tensors(path: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Every `(checkpoint name, tensor)` of a safetensors file or of a folder of them."""
    files = sorted(path.glob("*.safetensors")) if path.is_dir() else [path]
    if not files:
        raise FileNotFoundError(f"no *.safetensors file in {path}")
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (safe_open is no mapping)
                yield name, tensors.get_tensor(name)


def repack_cpu_experts_on_reload() -> None:
    """Make vLLM prepack CPU experts on every load.

    vLLM 0.30 prepacks them on the first load only; after an update its grouped gemm reads plain
    weights as if they were packed, and answers wrongly without any error.
    """
    original = UnquantizedFusedMoEMethod._setup_kernel

    def setup_kernel(self: Any, layer: Any, *args: Any, **kwargs: Any) -> None:
        is_update = self.moe_kernel is not None
        original(self, layer, *args, **kwargs)
        if is_update and self.unquantized_backend == UnquantizedMoeBackend.CPU:
            self.moe_kernel.fused_experts.process_weights_after_loading(layer)

    UnquantizedFusedMoEMethod._setup_kernel = setup_kernel


def register_backend() -> None:
    """Announce the backend; a second import in the same process changes nothing."""
    if BACKEND not in WeightTransferEngineFactory._registry:
        WeightTransferEngineFactory.register_engine(BACKEND, Transfer)


class WorkerExtension:
    """Named in `worker_extension_cls` so that vLLM imports this module; adds no methods."""


register_backend()
repack_cpu_experts_on_reload()
end_with_parent()
