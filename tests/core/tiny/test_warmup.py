"""The warm-up in a tiny budget: it learns, repeatably, and its simulation judges strictly."""

from __future__ import annotations

import itertools

import pytest
import torch

from lego_core.tiny import simulation
from lego_core.tiny.demonstrations import Demonstrator, encode
from lego_core.tiny.model import new_model
from lego_core.tiny.recording import IM_END
from lego_core.tiny.warmup import WarmupConfig, measure, warm_up
from lego_harness.tasks.synth import generate
from lego_harness.tasks.synth_words import OPERATIONS

SHORT = WarmupConfig(sure_steps=8, doubt_steps=4, batch=4)


def _warmed(demonstrator: Demonstrator) -> tuple[list[float], torch.Tensor]:
    model, losses = new_model(demonstrator.tokenizer, seed=1), []
    warm_up(model, demonstrator, SHORT, lambda _, loss: losses.append(loss))
    return losses, model.lm_head.weight.detach()


def test_the_loss_falls_and_the_same_seed_gives_the_same_weights(demonstrator: Demonstrator) -> None:
    (losses, weights), (again, same) = _warmed(demonstrator), _warmed(demonstrator)
    assert len(losses) == 12
    assert losses[-1] < 0.8 * losses[0]
    assert losses == again
    assert torch.equal(weights, same)


def test_an_untrained_policy_solves_nothing(demonstrator: Demonstrator) -> None:
    model = new_model(demonstrator.tokenizer, seed=0).eval()
    measured = measure(model, demonstrator, num_tasks=4, temperature=0.7, seed=0)
    assert (measured.solve_rate, measured.valid_rate, measured.read_rate) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("is_right", [True, False])
def test_the_simulation_rewards_the_right_operator_only(
    demonstrator: Demonstrator, monkeypatch: pytest.MonkeyPatch, is_right: bool
) -> None:
    task = next(generate("heldout", seed=0))
    wrong = next(op for op in OPERATIONS if op != task.wanted)
    replies = demonstrator.script.replies(
        word=task.wanted.word, operator=(task.wanted if is_right else wrong).operator
    )
    episode = _played(demonstrator, monkeypatch, task, replies)
    assert episode.valid
    assert episode.read
    assert episode.solved is is_right


def test_a_reply_out_of_form_ends_the_simulated_episode(
    demonstrator: Demonstrator, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = next(generate("heldout", seed=0))
    episode = _played(demonstrator, monkeypatch, task, ("rm -rf /", "", ""))
    assert not episode.valid
    assert not episode.solved
    assert sum(episode.mask) == len(encode(demonstrator.tokenizer, "rm -rf /" + IM_END))


def test_sampling_stops_each_sequence_at_its_own_end(demonstrator: Demonstrator) -> None:
    model = new_model(demonstrator.tokenizer, seed=0).eval()
    end = model.config.eos_token_id
    with torch.no_grad():
        replies = simulation.sample(
            model, [[5, 6, 7], [8]], temperature=1.0, generator=torch.Generator().manual_seed(0)
        )
    for reply in replies:
        assert end not in reply[:-1]
        assert reply[-1] == end or len(reply) == simulation.MAX_REPLY


def _played(demonstrator: Demonstrator, monkeypatch: pytest.MonkeyPatch, task, replies) -> simulation.Episode:
    """The episode of a policy that says `replies`."""
    said = itertools.cycle([encode(demonstrator.tokenizer, reply + IM_END)] for reply in replies)
    monkeypatch.setattr(simulation, "sample", lambda *_, **__: next(said))
    model = new_model(demonstrator.tokenizer, seed=0)
    (episode,) = simulation.simulate(
        model,
        demonstrator.tokenizer,
        demonstrator.form,
        demonstrator.script,
        [task],
        temperature=1.0,
        seed=0,
    )
    return episode
