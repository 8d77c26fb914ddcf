"""A recording of a harness that does not exist: a prompt around the task, JSON around outputs."""

from __future__ import annotations

import json

from lego_core.tiny.recording import IM_END, RecordedEpisode, Recording
from lego_core.tiny.script import SCRIPTS
from lego_harness.tasks.synth import SynthTask, generate

HARNESS = "mini-swe-agent"
SYSTEM = "Be a careful agent in this invented harness."
RULES = "Rules of the invented harness: one command at a time, then look."


def invented_recording(*, tail: tuple[str, str] = ("", "")) -> Recording:
    """Two probe episodes; `tail` ends each prompt, so that a test can make them differ."""
    first, second = (task for task, _ in zip(generate("train", seed=3), range(2), strict=False))
    return Recording(
        harness=HARNESS, version="0", episodes=(_episode(first, tail[0]), _episode(second, tail[1]))
    )


def _episode(task: SynthTask, tail: str) -> RecordedEpisode:
    replies = SCRIPTS[HARNESS].replies(word=task.wanted.word, operator=task.wanted.operator)
    prompt = (
        f"<|im_start|>system\n{SYSTEM}{IM_END}\n<|im_start|>user\nTask: {task.instruction}\n\n{RULES}\n\n"
        f"Date: 2026-11-29{tail}{IM_END}\n<|im_start|>assistant\n"
    )
    contexts = [prompt]
    for reply, output in zip(replies, (task.source, "edited\n"), strict=False):
        contexts.append(contexts[-1] + reply + IM_END + _observation(output))
    return RecordedEpisode(task=task, contexts=tuple(contexts), replies=replies)


def _observation(output: str) -> str:
    content = json.dumps({"output": output})
    return (
        f"\n<|im_start|>user\n<tool_response>\n{content}\n</tool_response>{IM_END}\n<|im_start|>assistant\n"
    )
