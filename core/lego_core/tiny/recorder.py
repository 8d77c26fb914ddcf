"""Records a harness: two probe tasks rolled out through the real machinery by a scripted engine.

Owns nothing that lasts: proxy, harness and sandboxes end with the call. Invariant: both rollouts
were graded and solved, so that a policy which imitates them would be rewarded.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path

import numpy as np

from lego_core.tiny.recording import IM_END, RecordedEpisode, Recording
from lego_core.tiny.script import SCRIPTS
from lego_core.tiny.tokenizer import bootstrap_tokenizer
from lego_harness.adapters.base import Adapter
from lego_harness.errors import HarnessError
from lego_harness.grading.grader import Grader
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.render import Renderer
from lego_harness.rollout import RolloutRunner, RolloutSpec
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.tasks.folder import load_task
from lego_harness.tasks.synth import SynthTask, generate, write_task
from lego_harness.types import Budget, GenerateRequest, Generation, Sampling

MAX_MODEL_LEN = 65_536
"""In bytes, as the bootstrap tokenizer counts."""


async def record(adapter: Adapter, backend: SandboxBackend) -> Recording:
    """The adapter's harness on two probes. Raises HarnessError when a scripted rollout is not solved."""
    first, second = itertools.islice(generate("train", seed=0), 2)
    with tempfile.TemporaryDirectory(prefix="lego-record-") as folder:
        renderer = _renderer(Path(folder))
        engine = _Engine(renderer)
        proxy = CaptureProxy(engine, renderer, socket_dir=Path(folder))
        grader = Grader(backend, label="record")
        runner = RolloutRunner(proxy=proxy, adapter=adapter, backend=backend, grader=grader, label="record")
        await proxy.start()
        try:
            await adapter.start()
            episodes = [
                await _episode(runner, engine, adapter.name, Path(folder), t) for t in (first, second)
            ]
        finally:
            await adapter.close()
            await proxy.close()
    return Recording(harness=adapter.name, version=adapter.version, episodes=(episodes[0], episodes[1]))


async def _episode(
    runner: RolloutRunner, engine: _Engine, harness: str, folder: Path, task: SynthTask
) -> RecordedEpisode:
    replies = SCRIPTS[harness].replies(word=task.wanted.word, operator=task.wanted.operator)
    engine.begin(replies)
    spec = RolloutSpec(
        id="record",
        task=load_task(write_task(folder / task.function, task, split="train")),
        epoch=0,
        sampling=Sampling(max_tokens=4096),
        budget=Budget(max_tokens=32_768),
    )
    trajectory = await runner.run(spec)
    if trajectory.grade is None or trajectory.grade.reward != 1.0 or len(engine.contexts) != len(replies):
        raise HarnessError(
            f"{harness}: a scripted rollout of {len(replies)} turns should be solved, got {trajectory.stop_reason} "
            f"after {len(engine.contexts)} turns with {trajectory.grade}: {trajectory.error}"
        )
    return RecordedEpisode(task=task, contexts=tuple(engine.contexts), replies=replies)


class _Engine:
    """Answers call n with reply n and keeps the text of every context."""

    def __init__(self, renderer: Renderer) -> None:
        self.contexts: list[str] = []
        self._renderer = renderer
        self._replies: tuple[str, ...] = ()

    def begin(self, replies: tuple[str, ...]) -> None:
        """Start the next episode."""
        self.contexts, self._replies = [], replies

    async def generate(self, request: GenerateRequest) -> Generation:
        if len(self.contexts) == len(self._replies):
            raise HarnessError(f"a scripted rollout asked for more than {len(self._replies)} turns")
        text = self._renderer.vocabulary.decode(request.context_ids.tolist())
        ids = self._renderer.vocabulary.encode(self._replies[len(self.contexts)] + IM_END)
        self.contexts.append(text)
        return Generation(
            ids=np.array(ids, np.int32),
            logprobs=np.zeros(len(ids), np.float32),
            routes=None,
            finish_reason="stop",
            policy_version=0,
        )


def _renderer(folder: Path) -> Renderer:
    bootstrap_tokenizer().save_pretrained(folder / "bootstrap")
    return Renderer.load(folder / "bootstrap", max_model_len=MAX_MODEL_LEN)
