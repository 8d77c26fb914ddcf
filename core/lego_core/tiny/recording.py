"""What a harness says around a task, learnt from two recorded probe rollouts.

A `Recording` is the text of scripted episodes as the engine would see it; `EpisodeForm` is that
text with slots where the instruction and the file stood. Invariant: the form made from the first
probe must reproduce the second one exactly, else the harness does something this file does not
understand and building stops. Holds no harness text of its own.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass

from lego_harness.errors import HarnessError
from lego_harness.tasks.synth import SynthTask

IM_END = "<|im_end|>"
DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
VOLATILE = re.compile(r"\d+\.\d+\.\d+|" + DATE.pattern)
"""Dates and version numbers: text that may differ tomorrow and must not become one token."""
MIN_PARAGRAPH = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedEpisode:
    """One scripted rollout of a probe task."""

    task: SynthTask
    contexts: tuple[str, ...]
    """Rendered context of each call."""
    replies: tuple[str, ...]
    """The scripted reply to each, without the end token."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Recording:
    """Two episodes of one harness; `harness` and its version key the build cache."""

    harness: str
    version: str
    episodes: tuple[RecordedEpisode, RecordedEpisode]


@dataclass(frozen=True, kw_only=True, slots=True)
class EpisodeForm:
    """Texts around the replies: the prompt and the observation after every reply but the last."""

    prompt: str
    observations: tuple[str, ...]

    def fill(self, task: SynthTask, rng: random.Random | None = None) -> tuple[str, ...]:
        """The texts before each reply for a task; `rng` draws other dates than the recorded one."""
        texts = tuple(_fill(text, task) for text in (self.prompt, *self.observations))
        return tuple(DATE.sub(_random_date(rng), text) for text in texts) if rng else texts

    def boilerplate(self) -> tuple[str, ...]:
        """Paragraphs of the prompt that are the same in every rollout, in order, each once."""
        blocks = re.split(r"<\|im_start\|>\w+\n|<\|im_end\|>\n?", self.prompt)
        paragraphs = [text for block in blocks for text in re.split(r"\n\n", block)]
        return tuple(dict.fromkeys(text for text in paragraphs if _is_constant(text)))


_SLOTS = {"\ue000": "instruction", "\ue001": "source", "\ue002": "source_json", "\ue003": "source_stripped"}


def episode_form(recording: Recording) -> EpisodeForm:
    """The form of the first probe, proven on the second."""
    first, second = recording.episodes
    texts = [_cut(text, first.task) for text in _between(first)]
    form = EpisodeForm(prompt=texts[0], observations=tuple(texts[1:]))
    if "\ue000" not in form.prompt or not any(slot in form.observations[0] for slot in list(_SLOTS)[1:]):
        raise HarnessError(
            f"{recording.harness}: the instruction or the file does not stand in the recorded text"
        )
    if form.fill(second.task) != tuple(_between(second)):
        raise HarnessError(f"{recording.harness}: two recorded episodes differ in more than their task")
    return form


def _between(episode: RecordedEpisode) -> list[str]:
    """The first context, then what each later context adds after the reply before it."""
    texts = [episode.contexts[0]]
    for before, reply, after in zip(episode.contexts, episode.replies, episode.contexts[1:], strict=False):
        known = before + reply + IM_END
        if not after.startswith(known):
            raise HarnessError(f"a recorded context does not extend the one before it: …{after[-200:]!r}")
        texts.append(after[len(known) :])
    return texts


def _values(task: SynthTask) -> dict[str, str]:
    return {
        "instruction": task.instruction,
        "source": task.source,
        "source_json": json.dumps(task.source)[1:-1],
        "source_stripped": task.source.rstrip("\n"),
    }


def _cut(text: str, task: SynthTask) -> str:
    values = _values(task)
    for slot, name in _SLOTS.items():
        text = text.replace(values[name], slot)
    return text


def _fill(text: str, task: SynthTask) -> str:
    values = _values(task)
    for slot, name in _SLOTS.items():
        text = text.replace(slot, values[name])
    return text


def _is_constant(text: str) -> bool:
    has_slot = any(slot in text for slot in _SLOTS)
    is_volatile = len(text) < 200 and VOLATILE.search(text)
    return len(text) >= MIN_PARAGRAPH and not has_slot and not is_volatile


def _random_date(rng: random.Random) -> str:
    return f"{rng.randint(2026, 2031)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
