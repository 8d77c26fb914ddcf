"""The real vLLM engine behind Ray: what it returns, how it takes weights, how it dies."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from dataclasses import replace

import numpy as np
import psutil
import pytest
import pytest_asyncio

from lego_core.config import EngineConfig, TrainConfig
from lego_core.inference.canary import perturbed_copy, reference_logprobs
from lego_core.inference.ray_engine import start_engine
from lego_core.inference.spec import EngineSpec
from lego_core.training.trainer import Trainer, TrainerSpec
from lego_harness.errors import EngineError
from lego_harness.types import token_versions
from tests.support.engine_samples import as_sample, native_routes, request, sample_many
from tests.support.tiny_model import build_random_model

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def model_dir(tmp_path_factory):
    return build_random_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def spec(model_dir):
    return EngineSpec(model_dir=model_dir, config=EngineConfig(dtype="float32", max_model_len=2048))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(ray_session, spec):
    started = await start_engine(spec)
    yield started
    await started.close()


async def test_a_generation_has_ids_logprobs_and_one_route_per_input_position(engine):
    reply = await engine.generate(request("shape", context=50, sampled=30))
    assert reply.ids.shape == reply.logprobs.shape == (30,)
    assert reply.ids.dtype == np.int32
    assert reply.logprobs.dtype == np.float32
    assert reply.routes.shape == (50 + 30 - 1, 2, 2)
    assert reply.routes.dtype == np.int8  # 4 experts
    assert (reply.routes[..., 0] != reply.routes[..., 1]).all()
    assert reply.finish_reason == "length"


async def test_a_stop_id_ends_the_call_and_is_part_of_the_reply(engine):
    free = await engine.generate(request("stop", sampled=40))
    stop = int(free.ids[20])
    first = int(np.flatnonzero(free.ids == stop)[0])
    reply = await engine.generate(request("stop", sampled=40, stop_ids=(stop,)))
    assert reply.finish_reason == "stop"
    assert reply.ids.tolist() == free.ids[: first + 1].tolist()
    assert len(reply.routes) == 50 + first


async def test_the_checkpoints_own_end_token_does_not_stop_a_call(engine):
    calls = [request(f"eos{i}", context=8, sampled=600) for i in range(4)]
    replies = await asyncio.gather(*[engine.generate(c) for c in calls])
    assert any(2 in r.ids[:-1] for r in replies)
    assert all(len(r.ids) == 600 for r in replies)


async def test_the_same_seed_samples_the_same_ids_whatever_runs_beside_it(engine):
    alone = await engine.generate(request("seeded", sampled=60))
    others = [request(f"beside{i}", context=400, sampled=60) for i in range(15)]
    replies = await asyncio.gather(*[engine.generate(c) for c in [request("seeded", sampled=60), *others]])
    assert replies[0].ids.tolist() == alone.ids.tolist()


async def test_routes_from_returns_only_the_tail(engine):
    whole = await engine.generate(request("tail", context=300))
    tail = await engine.generate(request("tail", context=300, routes_from=250))
    assert tail.ids.tolist() == whole.ids.tolist()
    assert (tail.routes == whole.routes[250:]).all()


async def test_a_call_that_leaves_no_room_is_refused_with_the_numbers(engine):
    with pytest.raises(
        EngineError, match=r"2048 context ids, expected fewer than engine.max_model_len = 2048"
    ):
        await engine.generate(request("long", context=2048))
    reply = await engine.generate(request("nearly", context=2040, sampled=100))
    assert (len(reply.ids), reply.finish_reason) == (8, "length")


async def test_the_trainer_recomputes_what_the_engine_sampled(engine, model_dir):
    """Table 3 in fp32: several lengths, prefix-cache hits and a second turn among them."""
    calls = [request(f"agree{i}", context=20 + 40 * i, sampled=60) for i in range(10)]
    samples = await sample_many(engine, calls)
    again = request("agree9", context=20 + 40 * 9, sampled=60)
    reply = await engine.generate(again)
    second = replace(again, request_id="turn2", context_ids=np.concatenate([again.context_ids, reply.ids]))
    samples += await sample_many(engine, [second])
    metrics = trainer(model_dir).train_step(samples)
    assert metrics.pearson_r >= 0.999
    assert metrics.mean_abs_dlogp <= 1e-4
    assert metrics.k3 < 1e-8
    assert metrics.routing_coverage == 1.0
    assert metrics.expert_overlap > 0.999
    assert metrics.top1_agreement > 0.999


async def test_every_row_of_a_long_prompt_comes_back(ray_session, spec, model_dir):
    """sgl-project/sglang#26860: the capture of routes crashed on a long prompt that was not split."""
    roomy = replace(spec, config=EngineConfig(dtype="float32", max_model_len=8192))
    started = await start_engine(roomy)
    (sample,) = await sample_many(started, [request("long", context=8180, sampled=12)])
    await started.close()
    assert sample.routes.shape[0] == len(sample.ids) == 8192
    metrics = trainer(model_dir).train_step([sample])
    assert metrics.routing_coverage == 1.0
    assert metrics.top1_agreement > 0.999
    assert metrics.mean_abs_dlogp <= 1e-4


async def test_agreement_holds_at_another_temperature_if_the_trainer_is_told(engine, model_dir):
    samples = await sample_many(engine, [request(f"warm{i}", temperature=0.7) for i in range(4)])
    assert trainer(model_dir, temperature=0.7).train_step(samples).mean_abs_dlogp <= 1e-4
    assert trainer(model_dir, temperature=1.0).train_step(samples).mean_abs_dlogp > 1e-2


def trainer(model_dir, *, temperature=1.0, **config):
    made = TrainConfig(**{"learning_rate": 0.0, "kl_coef": 0.0, **config})
    return Trainer(TrainerSpec(model_dir=model_dir, config=made, temperature=temperature))


async def test_published_weights_are_what_samples_from_then_on(engine, model_dir, tmp_path):
    call = request("published", context=200)
    before = await engine.generate(call)
    changed = perturbed_copy(model_dir, tmp_path / "changed")
    await engine.publish(changed / "model.safetensors", 7)
    after = await engine.generate(call)
    assert after.policy_version == 7
    wanted = reference_logprobs(changed, call.context_ids, after.ids)
    assert np.abs(after.logprobs - wanted).max() < 1e-4
    await engine.publish(model_dir / "model.safetensors", 8)
    back = await engine.generate(call)
    assert back.policy_version == 8
    assert back.ids.tolist() == before.ids.tolist()
    assert (back.logprobs == before.logprobs).all()


async def test_a_trainers_export_is_what_the_engine_then_computes(engine, model_dir, tmp_path):
    trained = trainer(model_dir, learning_rate=1e-2)
    trained.train_step(await sample_many(engine, [request(f"learn{i}") for i in range(4)]))
    trained.export(tmp_path / "w.safetensors")
    await engine.publish(tmp_path / "w.safetensors", 1)
    metrics = trained.train_step(await sample_many(engine, [request(f"then{i}") for i in range(4)]), step=2)
    await engine.publish(model_dir / "model.safetensors", 0)
    assert metrics.pearson_r >= 0.999
    assert metrics.mean_abs_dlogp <= 1e-4


async def test_every_token_sampled_around_a_publish_is_of_the_version_it_names(engine, model_dir, tmp_path):
    """Which of two calls sent at once the engine sees first is nobody's promise; what it says of each is."""
    changed = perturbed_copy(model_dir, tmp_path / "changed")
    await engine.publish(model_dir / "model.safetensors", 20)
    publish = asyncio.create_task(engine.publish(changed / "model.safetensors", 21))
    lanes = await asyncio.gather(*[_ask_until(publish, engine, f"lane{i}") for i in range(10)])
    late = request("late", sampled=5)
    pairs = [*itertools.chain(*lanes), (late, await engine.generate(late))]
    assert set(_versions(pairs[-1][1]).tolist()) == {21}
    for call, reply in pairs:
        for version, folder in ((20, model_dir), (21, changed)):
            wanted = reference_logprobs(folder, call.context_ids, reply.ids)
            of_version = _versions(reply) == version
            assert np.abs(reply.logprobs - wanted)[of_version].max(initial=0.0) < 1e-4


def _versions(reply):
    return token_versions(reply.versions, reply.policy_version, len(reply.ids))


async def _ask_until(publish, engine, name):
    """One call after another as long as the publish runs."""
    pairs = []
    while not publish.done():
        call = request(f"{name}.{len(pairs)}", sampled=5)
        pairs.append((call, await engine.generate(call)))
    return pairs


async def test_a_call_that_publishes_cut_goes_on_and_every_token_is_its_own_versions(
    engine, model_dir, tmp_path
):
    """Partial rollouts: ids, log-probabilities and routes of each segment are those of its weights."""
    changed = perturbed_copy(model_dir, tmp_path / "changed") / "model.safetensors"
    await engine.publish(model_dir / "model.safetensors", 0)
    call = request("across", context=300, sampled=1200, routes_from=200)
    running = asyncio.create_task(engine.generate(call))
    for version, weights in enumerate((changed, model_dir / "model.safetensors"), start=1):
        await engine.generate(request(f"beside{version}", sampled=60))
        await engine.publish(weights, version)
    reply = await running
    assert len(reply.ids) == 1200
    assert reply.finish_reason == "length"
    assert reply.routes.shape[0] == 300 + 1200 - 1 - 200
    assert reply.policy_version == 0
    assert sorted(set(reply.versions.tolist())) == [0, 1, 2]
    assert (np.diff(reply.versions) >= 0).all()
    for version, folder in enumerate((model_dir, tmp_path / "changed", model_dir)):
        wanted = reference_logprobs(folder, call.context_ids, reply.ids)
        of_version = reply.versions == version
        assert np.abs(reply.logprobs - wanted)[of_version].max() < 1e-4
    other = reference_logprobs(tmp_path / "changed", call.context_ids, reply.ids)
    assert np.abs(reply.logprobs - other)[reply.versions == 0].mean() > 1e-2
    _assert_routes_are_native(reply, call, model_dir, reply.versions != 1)


def _assert_routes_are_native(reply, call, model_dir, of_versions):
    """The position before token t was routed by token t's weights; transformers in fp32 is the oracle."""
    positions = np.flatnonzero(of_versions) + len(call.context_ids) - 1
    native = native_routes(model_dir, np.concatenate([call.context_ids, reply.ids]))
    got = reply.routes[positions - call.routes_from]
    assert (np.sort(got, -1) == np.sort(native[positions], -1)).mean() > 0.999


async def test_calls_in_flight_survive_many_publishes_in_a_row(engine, model_dir):
    """Publishes as fast as they go: no call is lost, mislabelled, or ends with too few tokens."""
    calls = [asyncio.create_task(engine.generate(request(f"storm{i}", sampled=200))) for i in range(12)]
    for version in range(30, 36):
        await engine.publish(model_dir / "model.safetensors", version)
    replies = await asyncio.gather(*calls)
    assert [len(reply.ids) for reply in replies] == [200] * 12
    assert all(len(reply.routes) == 50 + 200 - 1 for reply in replies)


async def test_weights_that_are_not_there_leave_the_engine_as_it_was(engine, model_dir, tmp_path):
    await engine.publish(model_dir / "model.safetensors", 2)
    with pytest.raises(EngineError, match=r"version 3 refused: there are no weights at .*nowhere"):
        await engine.publish(tmp_path / "nowhere.safetensors", 3)
    assert (await engine.health())["policy_version"] == 2
    assert (await engine.generate(request("still", sampled=3))).policy_version == 2


async def test_cancelling_a_call_frees_its_place(engine):
    """Of 16 places: were those of the cancelled calls still taken, the later ones would have one for all of them,
    and the one that goes on, which is as long as those that were cancelled, would have ended meanwhile."""
    going_on, *gone = [
        asyncio.create_task(engine.generate(request(f"gone{i}", sampled=1900))) for i in range(15)
    ]
    await engine.generate(request("probe", sampled=2))
    for call in gone:
        call.cancel()
    await asyncio.gather(*gone, return_exceptions=True)
    later = [engine.generate(request(f"after{i}", sampled=150)) for i in range(15)]
    assert [len(reply.ids) for reply in await asyncio.gather(*later)] == [150] * 15
    assert not going_on.done()
    going_on.cancel()
    await asyncio.gather(going_on, return_exceptions=True)


async def test_an_engine_that_does_not_answer_in_time_is_an_error_naming_the_limit(engine):
    hasty = replace(engine, timeout_s=0.05)
    with pytest.raises(EngineError, match=r"call slow got no answer .* engine\.timeout_s = 0\.05 s"):
        await hasty.generate(request("slow", sampled=1500))


async def test_the_canary_refuses_a_vllm_that_reloads_experts_wrongly(ray_session, spec):
    planted = replace(spec, worker_extension="tests.support.unfixed_worker.WorkerExtension")
    with pytest.raises(EngineError, match="weight canary: after new weights were pushed"):
        await start_engine(planted)


async def test_a_model_that_cannot_be_served_is_one_line(ray_session, spec, tmp_path):
    with pytest.raises(EngineError, match=f"vLLM could not serve {tmp_path}") as caught:
        await start_engine(replace(spec, model_dir=tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("victim", ["EngineCore", "actor"])
async def test_a_killed_engine_surfaces_within_seconds_and_leaves_no_process(ray_session, spec, victim):
    doomed = await start_engine(spec, max_restarts=0)
    actor = psutil.Process((await doomed.health())["pid"])
    children = actor.children(recursive=True)
    core = next(p for p in children if "EngineCore" in "".join(p.cmdline()))
    call = asyncio.create_task(doomed.generate(request("doomed", sampled=1900)))
    await doomed.generate(request("running", sampled=2))
    os.kill(core.pid if victim == "EngineCore" else actor.pid, signal.SIGKILL)
    with pytest.raises(EngineError, match="call doomed failed"):
        await asyncio.wait_for(call, 60)
    with pytest.raises(EngineError):
        await asyncio.wait_for(doomed.health(), 60)
    await doomed.close()
    _, alive = psutil.wait_procs([actor, *children], timeout=120)
    assert alive == []


async def test_as_sample_marks_exactly_what_was_sampled(engine):
    call = request("mark", context=30, sampled=10)
    sample = as_sample(call, await engine.generate(call))
    assert sample.mask.sum() == 10
    assert (sample.routes[-1] == -1).all()
    assert (sample.routes[:-1] >= 0).all()


async def test_an_engine_that_took_weights_only_in_part_is_not_used_again(ray_session, spec, tmp_path):
    from safetensors.torch import load_file, save_file

    part = load_file(spec.model_dir / "model.safetensors")
    part["model.norm.weight"] = part["model.norm.weight"][:3]
    save_file(part, tmp_path / "wrong.safetensors")
    broken = await start_engine(spec)
    with pytest.raises(EngineError, match="publishing version 1 failed in vLLM"):
        await broken.publish(tmp_path / "wrong.safetensors", 1)
    with pytest.raises(EngineError, match=r"refused: publishing version 1 failed.*start a new engine"):
        await broken.generate(request("never"))
    await broken.close()
