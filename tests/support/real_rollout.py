"""A rollout worker of real parts, the policy aside: proxy, harness, sandbox, grader, scripted replies.

As a program (`python -m tests.support.real_rollout FOLDER HARNESS BACKEND`) it starts one rollout that
cannot end, for tests that kill it.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lego_harness.adapters.base import Adapter
from lego_harness.adapters.options import HarnessOptions
from lego_harness.grading.grader import Grader
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.patience import PatientEngine
from lego_harness.proxy.render import Renderer
from lego_harness.registry import get_adapter
from lego_harness.rollout import RolloutRunner, RolloutSpec
from lego_harness.sandbox.choose import choose_backend
from lego_harness.tasks.folder import load_task
from lego_harness.tasks.synth import SynthTask, generate, write_task
from lego_harness.types import (
    Branch,
    Budget,
    GenerateRequest,
    Generation,
    Sampling,
    StopReason,
    Trajectory,
    Turn,
)
from tests.support.scripted_engine import ScriptedEngine, Step, say

MAX_MODEL_LEN = {"openhands": 131_072, "opencode": 131_072, "claude-code": 131_072}
"""In tokens of the tiny tokenizer, which are little more than bytes."""
TOOL = {
    "mini-swe-agent": "bash",
    "claude-code": "Bash",
    "opencode": "bash",
    "codex": "exec_command",
    "openhands": "terminal",
}
ARGUMENT = {"codex": "cmd"}
"""What the tool calls its command, where that is not `command`."""
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def run_command(harness: str, *commands: str) -> dict[str, Any]:
    """A reply that runs a command, or several at once."""
    argument = ARGUMENT.get(harness, "command")
    return say("", *((TOOL[harness], {argument: command}) for command in commands))


def finish(harness: str) -> dict[str, Any]:
    """The reply that ends a rollout."""
    if harness == "openhands":
        return say("", ("finish", {"message": "Done."}))
    return run_command(harness, SUBMIT) if harness == "mini-swe-agent" else say("Done.")


def solve(harness: str, task: SynthTask) -> list[Step]:
    """Look, repair, end."""
    sed = f"sed -i 's|{task.initial.operator} |{task.wanted.operator} |' {task.file}"
    return [
        run_command(harness, f"cat {task.file}"),
        run_command(harness, sed.replace("'s|* ", "'s|\\* ")),
        finish(harness),
    ]


def told(trajectory: Trajectory) -> list[str]:
    """What the harness's tools answered."""
    return [str(m["content"]) for m in trajectory.messages if m["role"] == "tool"]


def ended_with(trajectory: Trajectory, reward: float) -> bool:
    """Whether it came to its own end and was graded so; fails with what it says of itself, where not."""
    assert (trajectory.stop_reason, trajectory.error) == (StopReason.COMPLETED, "")
    assert trajectory.grade is not None
    assert trajectory.grade.reward == reward, (trajectory.id, trajectory.grade.detail, told(trajectory))
    return True


def conserves(trajectory: Trajectory) -> bool:
    """Every sampled token is trained once, in one branch, behind the very context it was sampled from."""
    owned = sum(int(branch.mask.sum()) for branch in trajectory.branches)
    return owned == trajectory.num_sampled and all(
        sum(_owns(branch, turn) for branch in trajectory.branches) == 1 for turn in trajectory.turns
    )


def _owns(branch: Branch, turn: Turn) -> bool:
    start = len(turn.context_ids)
    sampled = slice(start, start + len(turn.sampled_ids))
    return (
        np.array_equal(branch.ids[:start], turn.context_ids)
        and np.array_equal(branch.ids[sampled], turn.sampled_ids)
        and bool(branch.mask[sampled].all())
    )


def label_of(pid: int) -> str:
    """The label of the sandboxes that a worker process makes."""
    return f"test-real-{pid}"


class Worker:
    """What a rollout worker holds, with an engine that a test can script anew for each rollout."""

    def __init__(
        self,
        folder: Path,
        harness: str,
        backend: str,
        options: HarnessOptions | None = None,
    ) -> None:
        from lego_core.tiny.tokenizer import bootstrap_tokenizer

        bootstrap_tokenizer().save_pretrained(folder / "model")
        self.renderer = Renderer.load(folder / "model", max_model_len=MAX_MODEL_LEN.get(harness, 32_768))
        self._engine = _Engines()
        self._folder = folder
        self.adapter: Adapter = get_adapter(harness, options)
        self.backend = choose_backend(backend)
        self.proxy = CaptureProxy(PatientEngine(self._engine), self.renderer, socket_dir=folder)
        label = label_of(os.getpid())
        self.runner = RolloutRunner(
            proxy=self.proxy,
            adapter=self.adapter,
            backend=self.backend,
            grader=Grader(self.backend, label=label),
            label=label,
        )
        self.synth = next(generate("train", seed=3))

    def engine(self, steps: Iterable[Step], gate: asyncio.Event | None = None) -> ScriptedEngine:
        """Serve the next rollout from these steps."""
        self._engine.current = ScriptedEngine(self.renderer, steps, gate=gate)
        return self._engine.current

    def by_turn(self, *replies: Mapping[str, Any]) -> Callable[[GenerateRequest], Generation]:
        """A step that answers turn n of whatever rollout asks with reply n."""

        def step(request: GenerateRequest) -> Generation:
            reply = replies[int(request.request_id.rpartition(".t")[2])]
            return self._engine.current.generation(request, self.renderer.encode_assistant(reply))

        return step

    def by_text(self, choose: Callable[[str], Mapping[str, Any]]) -> Callable[[GenerateRequest], Generation]:
        """A step whose reply is chosen by what the context says."""

        def step(request: GenerateRequest) -> Generation:
            reply = choose(self.renderer.vocabulary.decode(request.context_ids.tolist()))
            return self._engine.current.generation(request, self.renderer.encode_assistant(reply))

        return step

    async def run(
        self,
        steps: Iterable[Step],
        *,
        gate: asyncio.Event | None = None,
        rollout: str = "s1.g0.r0",
        **budget: Any,
    ) -> Trajectory:
        """One rollout of the worker's task."""
        self.engine(steps, gate)
        return await self.runner.run(self.spec(rollout, **budget))

    async def out_of_time(self, command: str, *, max_seconds: float) -> Trajectory:
        """A rollout whose one command outlasts its wall clock. Where a busy machine does not start the harness
        within that time, so that no command is asked for, it is done again with a minute more."""
        for limit_s in (max_seconds, max_seconds + 60.0):
            trajectory = await self.run([run_command(self.adapter.name, command)], max_seconds=limit_s)
            if trajectory.turns:
                break
        return trajectory

    def spec(self, rollout: str, **budget: Any) -> RolloutSpec:
        """The budget alone says how long it may last: the task itself, which may say less, is told the same."""
        limits = {"max_turns": 8, "max_tokens": 8192, "max_seconds": 90.0, **budget}
        task = load_task(write_task(self._folder / "ops-0001", self.synth, split="train"))
        task = replace(task, agent_timeout_s=limits["max_seconds"])
        sampling = Sampling(max_tokens=1024, seed=1)
        return RolloutSpec(id=rollout, task=task, epoch=0, sampling=sampling, budget=Budget(**limits))


@asynccontextmanager
async def open_worker(
    folder: Path, harness: str, backend: str, options: HarnessOptions | None = None
) -> AsyncIterator[Worker]:
    """A started worker; everything is closed behind it."""
    worker = Worker(folder, harness, backend, options)
    await worker.proxy.start()
    try:
        await worker.adapter.start()
        yield worker
    finally:
        await worker.adapter.close()
        await worker.proxy.close()


class _Engines:
    """One engine for the proxy, replaced between rollouts."""

    current: ScriptedEngine

    async def generate(self, request: GenerateRequest) -> Generation:
        return await self.current.generate(request)


async def _hang(folder: Path, harness: str, backend: str) -> None:
    """Run a command that never ends, in a rollout; tell on stdout when it runs."""
    async with open_worker(folder, harness, backend) as worker:
        reply = worker.by_turn(run_command(harness, "exec sleep 1000"))

        def asked(request: GenerateRequest) -> Generation:
            sys.stdout.write("asked\n")
            sys.stdout.flush()
            return reply(request)

        worker.engine([asked])
        await worker.runner.run(worker.spec("s1.g0.r0"))


def main(argv: Sequence[str]) -> None:
    asyncio.run(_hang(Path(argv[0]), argv[1], argv[2]))


if __name__ == "__main__":
    main(sys.argv[1:])
