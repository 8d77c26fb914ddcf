"""Which weights sampled a token, and that nothing older computed what it was sampled behind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lego_core.inference.weight_sync import push_weights
from lego_harness.errors import EngineError
from lego_harness.proxy.render import Renderer
from lego_harness.types import GenerateRequest, Generation
from tests.support.conversation import Talk
from tests.support.scripted_engine import ScriptedEngine, say

Begin = Callable[[ScriptedEngine], Awaitable[Talk]]
LS = say("Look.", ("bash", {"command": "ls"}))


class SyncedEngine(ScriptedEngine):
    """Is given new weights in the middle of calls, which are aborted with what they had sampled."""

    def __init__(self, renderer: Renderer, *versions: tuple[int, bool]) -> None:
        super().__init__(renderer, [self._call(*version) for version in versions])

    def _call(self, version: int, is_aborted: bool) -> Callable[[GenerateRequest], Generation]:
        def sample(request: GenerateRequest) -> Generation:
            self.policy_version = version
            ids = [*self.renderer.vocabulary.encode(f"By {version}."), self.renderer.vocabulary.end_of_turn]
            made = self.generation(request, ids[:-1] if is_aborted else ids)
            return replace(made, finish_reason="abort") if is_aborted else made

        return sample


async def test_a_turn_that_was_aborted_twice_is_of_the_version_that_finished_it(
    talk: Begin, renderer: Renderer
) -> None:
    """THUDM/slime#2092: one sample mixed the weight versions 2, 4 and 6, unmasked."""
    t = await talk(SyncedEngine(renderer, (2, True), (4, True), (6, False), (8, False)))
    assert (await t.turn())["content"] == "By 6."
    t.messages.append({"role": "user", "content": "Go on."})
    assert (await t.turn())["content"] == "By 8."
    capture = t.session.close()
    assert [turn.policy_version for turn in capture.turns] == [6, 8]
    (branch,) = capture.branches
    for turn in capture.turns:
        span = slice(len(turn.context_ids), len(turn.context_ids) + len(turn.sampled_ids))
        assert branch.ids[span].tolist() == turn.sampled_ids.tolist()
        assert set(branch.versions[span]) == {turn.policy_version}
    assert branch.mask.sum() == sum(len(turn.sampled_ids) for turn in capture.turns)
    assert set(branch.versions[~branch.mask]) == {-1}


async def test_a_turn_that_new_weights_came_inside_is_not_of_one_version(
    talk: Begin, renderer: Renderer
) -> None:
    """THUDM/slime#2092: each token is trained as of the weights that sampled it, in turn and branch."""

    def cut(request: GenerateRequest) -> Generation:
        engine.policy_version = 4
        ids = [*renderer.vocabulary.encode("By two."), renderer.vocabulary.end_of_turn]
        whole = engine.generation(request, ids)
        return replace(whole, versions=np.where(np.arange(len(ids)) < 3, 4, 6))

    engine = ScriptedEngine(renderer, [cut, say("Alone.")])
    t = await talk(engine)
    await t.turn()
    t.messages.append({"role": "user", "content": "Go on."})
    engine.policy_version = 6
    await t.turn()
    capture = t.session.close()
    (branch,) = capture.branches
    first, second = capture.turns
    assert (first.policy_version, second.policy_version) == (4, 6)
    assert first.token_versions.tolist() == [4] * 3 + [6] * (len(first.sampled_ids) - 3)
    assert branch.versions[branch.mask].tolist() == [*first.token_versions, *second.token_versions]


class CachingLlm:
    """What a weight sync sees of vLLM: blocks of a prefix cache, each with the version that computed it."""

    def __init__(self, *, keeps_cache: bool) -> None:
        self.version, self.is_paused, self.keeps_cache = 0, False, keeps_cache
        self.blocks: dict[tuple[int, ...], int] = {}

    def compute(self, prefix: tuple[int, ...]) -> int:
        """The version whose keys and values a call over `prefix` reads."""
        assert not self.is_paused
        return self.blocks.setdefault(prefix, self.version)

    async def pause_generation(self, mode: str) -> None:
        self.is_paused = True

    async def start_weight_update(self) -> None:
        assert self.is_paused

    async def update_weights(self, request: Any) -> None:
        assert self.is_paused

    async def finish_weight_update(self, version: str) -> None:
        self.version = int(version)

    async def reset_prefix_cache(self) -> bool:
        if not self.keeps_cache:
            self.blocks.clear()
        return not self.keeps_cache

    async def resume_generation(self) -> None:
        self.is_paused = False


@pytest.mark.slow
async def test_no_call_reads_keys_and_values_of_older_weights(tmp_path: Path) -> None:
    """NVIDIA-NeMo/RL#4018: the prefix cache served keys and values of up to 17 syncs ago."""
    llm = CachingLlm(keeps_cache=False)
    for version in range(1, 18):
        llm.compute((1, 2, 3))
        await push_weights(llm, tmp_path, version)
        assert llm.compute((1, 2, 3)) == version


@pytest.mark.slow
async def test_an_engine_that_keeps_its_cache_answers_no_more(tmp_path: Path) -> None:
    """NVIDIA-NeMo/RL#4018: a cache that is not emptied is a failure and not a warning."""
    llm = CachingLlm(keeps_cache=True)
    llm.compute((1, 2, 3))
    with pytest.raises(EngineError, match="kept its prefix cache after the update to version 1"):
        await push_weights(llm, tmp_path, 1)
    assert llm.is_paused
