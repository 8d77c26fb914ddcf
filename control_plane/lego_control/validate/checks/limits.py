"""The recipe's limits fit each other: a rollout that cannot fit its context is cut before it begins."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground


def run(ground: Ground) -> str:
    rollout, engine, train = ground.recipe.rollout, ground.recipe.engine, ground.recipe.train
    if rollout.max_tokens_per_turn >= engine.max_model_len:
        raise Broken(
            f"rollout.max_tokens_per_turn {rollout.max_tokens_per_turn} leaves nothing of engine.max_model_len "
            f"{engine.max_model_len} for a prompt",
            "raise engine.max_model_len or lower rollout.max_tokens_per_turn",
        )
    if engine.max_model_len > train.micro_batch_tokens:
        raise Broken(
            f"a rollout of engine.max_model_len {engine.max_model_len} does not fit train.micro_batch_tokens "
            f"{train.micro_batch_tokens}",
            "raise train.micro_batch_tokens to engine.max_model_len",
        )
    if rollout.group_size == 1:
        raise Broken(
            "rollout.group_size is 1: a rollout alone has no baseline, nothing is learned",
            "set rollout.group_size to 2 or more",
        )
    return f"{rollout.groups_per_step} × {rollout.group_size} rollouts of at most {rollout.max_tokens} tokens"
