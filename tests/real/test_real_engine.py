"""Five unmodified harnesses, one real vLLM, a tiny policy that repairs: plainly, and while the engine is killed.

Nothing is scripted here: the policy has learnt by heart what a recording of each harness shows (recorded at
the start, see `memorised_policy`), vLLM samples, and its process is killed while all of them wait for a reply.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio

from lego_core.batching.samples import make_batch
from lego_core.config import EngineConfig, TrainConfig
from lego_core.inference.ray_engine import RayEngine, start_engine
from lego_core.inference.spec import EngineSpec
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_core.types import RolloutGroup
from lego_harness.adapters.install import CLAUDE_CODE, CODEX, MINI_SWE, OPENCODE, OPENHANDS, Harness, install
from lego_harness.grading.grader import Grader
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.patience import PatientEngine
from lego_harness.proxy.render import Renderer
from lego_harness.rollout import RolloutRunner
from lego_harness.types import GenerateRequest, Generation, Sampling, Trajectory
from tests.support.memorised_policy import memorise, recorded
from tests.support.own_ray import own_ray
from tests.support.real_rollout import Worker, conserves, ended_with, open_worker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.asyncio(loop_scope="module")]

CHAT_AND_MESSAGES, THE_OTHERS = (MINI_SWE, CLAUDE_CODE), (OPENCODE, CODEX, OPENHANDS)
TEMPERATURE = 0.5


@dataclass(kw_only=True)
class Watched:
    """`Engine` over the real one, kept under watch: what it answered, and a moment at which all wait."""

    engine: RayEngine
    answers: list[tuple[GenerateRequest, Generation]] = field(default_factory=list)
    num_to_meet: int = 0
    """So many second turns meet before any of them is asked; 0 lets every call through."""
    met: asyncio.Event = field(default_factory=asyncio.Event)
    num_waiting: int = 0

    async def generate(self, request: GenerateRequest) -> Generation:
        if self.num_to_meet and request.request_id.endswith(".t1"):
            self.num_waiting += 1
            if self.num_waiting == self.num_to_meet:
                self.met.set()
            await self.met.wait()
        generation = await self.engine.generate(request)
        self.answers.append((request, generation))
        return generation


@dataclass(kw_only=True)
class Bench:
    """Started harnesses over one engine."""

    model_dir: Path
    watched: Watched
    workers: Sequence[Worker]
    runners: Sequence[RolloutRunner]

    async def rollouts(self, name: str) -> list[Trajectory]:
        """One of each harness, all at once."""
        specs = [
            replace(
                worker.spec(f"{name}.{worker.adapter.name}", max_seconds=900.0),
                sampling=Sampling(temperature=TEMPERATURE, max_tokens=256, seed=1),
            )
            for worker in self.workers
        ]
        return await asyncio.gather(
            *(runner.run(spec) for runner, spec in zip(self.runners, specs, strict=True))
        )


@pytest.fixture(scope="module")
def ray_session() -> Iterator[None]:
    with own_ray():
        yield


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=[
        pytest.param(CHAT_AND_MESSAGES, id="chat and messages"),
        pytest.param(THE_OTHERS, id="the others"),
    ],
)
async def bench(
    request: pytest.FixtureRequest, ray_session: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Bench]:
    harnesses: Sequence[Harness] = request.param
    for harness in harnesses:
        install(harness)
    folder, model = tmp_path_factory.mktemp("bench"), tmp_path_factory.mktemp("policy")
    async with AsyncExitStack() as stack:
        workers: list[Worker] = []
        for harness in harnesses:
            (folder / harness.name).mkdir()
            workers.append(
                await stack.enter_async_context(
                    open_worker(folder / harness.name, harness.name, "bubblewrap")
                )
            )
        await asyncio.to_thread(memorise, model, [await recorded(worker) for worker in workers])
        config = EngineConfig(dtype="float32", max_model_len=8192, timeout_s=300.0)
        engine = await start_engine(EngineSpec(model_dir=model, config=config))
        stack.push_async_callback(engine.close)
        watched = Watched(engine=engine)
        renderer = Renderer.load(model, max_model_len=config.max_model_len)
        runners = [await _runner(stack, worker, watched, renderer, folder) for worker in workers]
        yield Bench(model_dir=model, watched=watched, workers=workers, runners=runners)


async def _runner(
    stack: AsyncExitStack, worker: Worker, engine: Watched, renderer: Renderer, folder: Path
) -> RolloutRunner:
    """As a rollout worker makes it, around a harness that is started already."""
    sockets = folder / f"{worker.adapter.name}-s"
    sockets.mkdir()
    proxy = CaptureProxy(PatientEngine(engine), renderer, socket_dir=sockets)
    await proxy.start()
    stack.push_async_callback(proxy.close)
    label = f"test-restart-{os.getpid()}"
    grader = Grader(worker.backend, label=label)
    return RolloutRunner(
        proxy=proxy, adapter=worker.adapter, backend=worker.backend, grader=grader, label=label
    )


def assert_captured(
    bench: Bench, trajectories: list[Trajectory], answers: list[tuple[GenerateRequest, Generation]]
) -> None:
    """What each rollout says is what the engine sampled, all of it, and the trainer computes the same."""
    for trajectory in trajectories:
        assert ended_with(trajectory, 1.0)
        assert (len(trajectory.turns), len(trajectory.branches)) == (3, 1)
        assert conserves(trajectory)
        (branch,) = trajectory.branches
        assert branch.routes is not None
        assert (branch.routes[:-1] >= 0).all()
        own = [one for one in answers if one[0].request_id.startswith(f"{trajectory.id}.")]
        for turn, (request, generation) in zip(trajectory.turns, own, strict=True):
            assert np.array_equal(turn.context_ids, request.context_ids)
            assert np.array_equal(turn.sampled_ids, generation.ids)
            assert np.array_equal(turn.logprobs, generation.logprobs)
    other = replace(trajectories[0], id="other", grade=replace(trajectories[0].grade, reward=0.0))
    group = RolloutGroup(id="g", task_id="t", trajectories=(*trajectories, other))
    batch = make_batch([group], advantage_std=False)
    assert batch.sampled == batch.trained
    trainer = Trainer(
        TrainerSpec(
            model_dir=bench.model_dir,
            config=TrainConfig(learning_rate=0.0, kl_coef=0.0),
            temperature=TEMPERATURE,
        )
    )
    metrics = trainer.train_step(batch.samples)
    assert metrics.mean_abs_dlogp <= 1e-4
    assert metrics.routing_coverage == 1.0


async def test_every_harness_repairs_with_a_real_engine(bench: Bench) -> None:
    trajectories = await bench.rollouts("plain")
    assert_captured(bench, trajectories, bench.watched.answers)


async def test_an_engine_killed_while_all_wait_is_started_again_and_no_harness_notices(bench: Bench) -> None:
    watched = bench.watched
    watched.answers.clear()
    watched.num_to_meet = len(bench.workers)
    pid = (await watched.engine.health())["pid"]
    running = asyncio.create_task(bench.rollouts("restart"))
    meeting = asyncio.create_task(watched.met.wait())
    await asyncio.wait({running, meeting}, return_when=asyncio.FIRST_COMPLETED)
    assert not running.done(), "a rollout ended before its second turn"
    os.kill(pid, signal.SIGKILL)
    trajectories = await running
    assert_captured(bench, trajectories, watched.answers)
    assert (await watched.engine.health())["pid"] != pid
    assert all(turn.policy_version == 0 for t in trajectories for turn in t.turns)
