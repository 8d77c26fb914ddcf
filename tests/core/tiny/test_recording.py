"""The form of an episode, learnt from two recordings."""

from __future__ import annotations

import random

import pytest

from lego_core.tiny.recording import episode_form
from lego_harness.errors import HarnessError
from lego_harness.tasks.synth import generate
from tests.support.invented_harness import RULES, SYSTEM, invented_recording


def test_a_form_filled_with_another_task_shows_that_task_only() -> None:
    recording = invented_recording()
    form, task = episode_form(recording), next(generate("train", seed=9))
    prompt, listing, _ = form.fill(task)
    assert task.instruction in prompt
    assert task.function in listing
    for episode in recording.episodes:
        assert episode.task.instruction not in prompt
        assert episode.task.function not in listing


def test_boilerplate_is_the_constant_paragraphs_without_dates_and_tasks() -> None:
    assert episode_form(invented_recording()).boilerplate() == (SYSTEM, RULES)


def test_a_harness_that_says_something_new_each_time_is_refused() -> None:
    with pytest.raises(HarnessError, match="differ in more than their task"):
        episode_form(invented_recording(tail=(" nonce 17", " nonce 23")))


def test_dates_vary_so_that_a_cached_policy_survives_the_day() -> None:
    form, task = episode_form(invented_recording()), next(generate("train", seed=9))
    prompts = {form.fill(task, random.Random(seed))[0] for seed in range(5)}
    assert len(prompts) == 5
    assert not any("2026-11-29" in prompt for prompt in prompts)
