"""New weights reach all engines of a run at once, or the run ends naming who did not take part."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from safetensors.torch import load_file

from lego_core.config import EngineConfig
from lego_core.errors import TrainingError
from lego_core.inference.broadcast import Broadcaster
from lego_core.inference.canary import perturbed_copy
from lego_core.inference.engine_actor import EngineActor
from lego_core.inference.spec import EngineSpec
from lego_core.inference.torch_engine import TorchEngine
from lego_core.weight_broadcast import Meeting
from lego_harness.errors import EngineError, EngineUnavailable, LegoError
from tests.support.engine_samples import request
from tests.support.local_sender import LocalSender
from tests.support.tiny_model import build_random_model


@dataclass(eq=False)
class Part:
    """The trainer or an engine, which does what it is told and fails as it is told."""

    name: str
    told: list[str]
    error: Exception | None = None
    after: Part | None = None
    """Serves only when this one does."""
    serves: asyncio.Event = field(default_factory=asyncio.Event)

    async def invite(self, num_engines: int, dtype: str, timeout_s: float) -> Meeting:
        self.told.append("meeting")
        return Meeting(host="here", port=1, size=1 + num_engines, dtype=dtype, timeout_s=timeout_s)

    async def broadcast(self, meeting: Meeting) -> None:
        self.told.append(f"sent as {meeting.rank} of {meeting.size} in {meeting.dtype}")
        if self.error:
            raise self.error

    async def wait_until_serving(self) -> None:
        if self.after:
            await self.after.serves.wait()
        self.told.append(f"{self.name} serves")
        self.serves.set()

    async def receive(self, meeting: Meeting, weights: Path, version: int) -> None:
        self.told.append(f"{self.name} got {weights} as {version} at {meeting.rank}")
        if self.error:
            raise self.error


def _broadcaster(told: list[str], *errors: Exception | None, is_late: bool = False) -> Broadcaster:
    """Of the trainer first, then each engine; the first engine may be later than the last."""
    trainer, *engines = (Part(f"e{i}", told, error) for i, error in enumerate(errors))
    if is_late:
        engines[0].after = engines[-1]
    return Broadcaster(sender=trainer, engines=engines, dtype="bfloat16", timeout_s=5.0)


async def test_nobody_meets_before_every_engine_serves() -> None:
    told: list[str] = []
    broadcaster = _broadcaster(told, None, None, None, is_late=True)
    await broadcaster.publish(Path("w"), 7)
    assert told[:3] == ["e2 serves", "e1 serves", "meeting"]
    assert sorted(told[3:]) == ["e1 got w as 7 at 1", "e2 got w as 7 at 2", "sent as 0 of 3 in bfloat16"]


@pytest.mark.parametrize(
    ("errors", "told"),
    [
        (
            (TrainingError("it broke off"), EngineError("e1 broke off"), EngineUnavailable("e2 died")),
            "e2 died; e1 broke off; it broke off",
        ),
        ((None, None, EngineError("e2 gave no answer")), "e2 gave no answer"),
        ((TrainingError("no space left"), None, None), "no space left"),
    ],
)
async def test_whoever_fails_is_named_with_the_dead_first(
    errors: tuple[LegoError | None, ...], told: str
) -> None:
    with pytest.raises(
        EngineError,
        match=f"^broadcasting version 3 failed, and engines may hold a mixture: {told}; resume the run$",
    ) as caught:
        await _broadcaster([], *errors).publish(Path("w"), 3)
    assert caught.value.exit_code == 3


async def test_a_fault_of_ours_is_not_told_as_one_of_the_machine() -> None:
    with pytest.raises(ZeroDivisionError):
        await _broadcaster([], EngineError("broke off"), None, ZeroDivisionError()).publish(Path("w"), 3)


async def test_an_engine_answers_after_a_broadcast_as_after_the_file_and_so_does_its_next_process(
    tmp_path: Path,
) -> None:
    """The trainer removes its own file once it is published."""
    model_dir = build_random_model(tmp_path / "model", hidden=32)
    spec = EngineSpec(model_dir=model_dir, config=EngineConfig(dtype="float32", max_model_len=256))
    tensors = load_file(perturbed_copy(model_dir, tmp_path / "changed") / "model.safetensors")
    sender, file = LocalSender(), tmp_path / "weights"
    folders = [tmp_path / name for name in ("by file", "by broadcast")]
    for folder in folders:
        folder.mkdir()
    by_file, by_broadcast = (EngineActor(TorchEngine, spec, folder) for folder in folders)
    await by_file.start()
    await by_broadcast.start()

    sender.export(tensors, file)
    meeting = await sender.invite(1, "float32", 600.0)
    taken = by_broadcast.publish(file, 4, replace(meeting, rank=1))
    await asyncio.gather(sender.broadcast(meeting), taken)
    await by_file.publish(file, 4)
    file.unlink()
    again = EngineActor(TorchEngine, spec, folders[1])
    await again.start()
    answers = [await engine.generate(request("a", sampled=20)) for engine in (by_file, by_broadcast, again)]
    for answer in answers:
        assert answer.policy_version == 4
        assert answer.ids.tolist() == answers[0].ids.tolist()
        assert (answer.logprobs == answers[0].logprobs).all()
