"""Noise on what the routers see during the warm-up.

A router picks the top k experts, so a small change of the weights can send a token to another
expert at once, and one that has never seen such a token writes something else: a whole kind of
task then fails in every rollout of its group, has no variance, and is never trained back. With
noise on the routers' input (noisy top-k gating, Shazeer et al. 2017, arXiv:1701.06538) the experts
near the border learn to do the same. The experts' own input stays exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3MoeForCausalLM
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeTopKRouter


@contextmanager
def noisy_routers(model: Qwen3MoeForCausalLM, share: float, *, seed: int) -> Iterator[None]:
    """Within, every router's input has Gaussian noise of `share` times its own root mean square."""
    generator = torch.Generator().manual_seed(seed)

    def disturb(_: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
        (hidden,) = inputs
        size = share * hidden.detach().pow(2).mean(-1, keepdim=True).sqrt()
        return (hidden + size * torch.randn(hidden.shape, generator=generator),)

    routers = [m for m in model.modules() if isinstance(m, Qwen3MoeTopKRouter)]
    hooks = [router.register_forward_pre_hook(disturb) for router in routers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
