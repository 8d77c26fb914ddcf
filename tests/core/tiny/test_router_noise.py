"""Router noise: the experts' choice is disturbed, repeatably, and only within its context."""

from __future__ import annotations

import torch
from transformers import Qwen3MoeForCausalLM

from lego_core.tiny.demonstrations import Demonstrator
from lego_core.tiny.model import new_model
from lego_core.tiny.router_noise import noisy_routers

IDS = torch.arange(5, 69)[None]


def _seen(model: Qwen3MoeForCausalLM) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the first layer's router sees, the experts it picks, what the experts see."""
    seen = {}
    mlp = model.model.layers[0].mlp

    def keep(module, inputs, output) -> None:
        seen[module] = (inputs[0].detach(), output)

    hooks = [m.register_forward_hook(keep) for m in (mlp.gate, mlp.experts)]
    with torch.no_grad():
        model(input_ids=IDS)
    for hook in hooks:
        hook.remove()
    (router_input, (_, _, picked)), (experts_input, _) = seen[mlp.gate], seen[mlp.experts]
    return router_input, picked, experts_input


def test_the_routers_choice_is_disturbed_and_what_the_experts_see_is_not(demonstrator: Demonstrator) -> None:
    model = new_model(demonstrator.tokenizer, seed=0).eval()
    _, picked, exact = _seen(model)
    with noisy_routers(model, 0.6, seed=0):
        router_input, disturbed, experts_input = _seen(model)
    noise = router_input - exact
    assert 0 < (disturbed != picked).double().mean() < 1
    torch.testing.assert_close(experts_input, exact, rtol=0, atol=0)
    torch.testing.assert_close(
        noise.pow(2).mean() / exact.pow(2).mean(), torch.tensor(0.36), rtol=0.05, atol=0
    )


def test_the_same_seed_gives_the_same_noise_and_none_stays_behind(demonstrator: Demonstrator) -> None:
    model = new_model(demonstrator.tokenizer, seed=0).eval()
    before, *_ = _seen(model)
    with noisy_routers(model, 0.6, seed=3):
        once, *_ = _seen(model)
    with noisy_routers(model, 0.6, seed=3):
        again, *_ = _seen(model)
    assert torch.equal(once, again)
    assert torch.equal(_seen(model)[0], before)
