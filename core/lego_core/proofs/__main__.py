"""`python -m lego_core.proofs --recipe FILE.json --out FILE.jsonl --scratch DIR`.

Starts the engine and the trainer that the run would have, in this process, and writes one line of JSON per proof
as soon as it is known. Their own output goes to stderr. Exits with 0 when all proofs were made.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from lego_core.config import Recipe
from lego_core.inference.choose import pick_engine
from lego_core.inputs import prepare_model
from lego_core.proofs.told import Told
from lego_core.recipe_file import parse_recipe
from lego_core.types import Sample
from lego_harness.errors import EngineError, LegoError

Tell = Callable[[Told], None]
"""Writes down a proof as soon as it is known."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="lego_core.proofs", description="Prove a recipe's numbers.")
    for name in ("--recipe", "--out", "--scratch"):
        parser.add_argument(name, type=Path, required=True)
    arguments = parser.parse_args()
    recipe = parse_recipe(json.loads(arguments.recipe.read_text()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with arguments.out.open("a", encoding="utf-8") as out:

        def tell(told: Told) -> None:
            out.write(json.dumps(asdict(told)) + "\n")
            out.flush()

        try:
            asyncio.run(_prove(recipe, arguments.scratch, tell))
        except LegoError as error:
            tell(Told(name="engine", status="error", evidence=str(error)))
            return error.exit_code
    return 0


async def _prove(recipe: Recipe, scratch: Path, tell: Tell) -> None:
    model_dir = await prepare_model(recipe)
    (scratch / "model_dir").write_text(str(model_dir))
    kind, reason = pick_engine()
    if kind == "vllm":
        from lego_core.inference.vllm_calls import environment

        os.environ.update(environment())
    samples = await _engine(recipe, model_dir, kind, reason, tell)
    if samples:
        await asyncio.to_thread(_trainer, recipe, model_dir, samples, scratch, tell)


async def _engine(recipe: Recipe, model_dir: Path, kind: str, reason: str, tell: Tell) -> list[Sample]:
    from lego_core.inference.call_sample import as_sample
    from lego_core.inference.engine import VllmEngine
    from lego_core.inference.spec import EngineSpec
    from lego_core.inference.torch_engine import TorchEngine
    from lego_core.proofs.engine import ask, failed_start, prove_answers

    spec = EngineSpec(model_dir=model_dir, config=recipe.engine, routes=recipe.train.routing_replay)
    engine = VllmEngine(spec) if kind == "vllm" else TorchEngine(spec)
    try:
        await engine.start()
        calls, replies = await ask(engine, model_dir, recipe.rollout.temperature)
    except EngineError as error:
        for told in failed_start(error):
            tell(told)
        return []
    finally:
        await engine.close()
    wants_routes = recipe.train.routing_replay
    told = prove_answers(calls, replies, model_dir=model_dir, wants_routes=wants_routes)
    tell(Told(name=told.name, status=told.status, evidence=f"{told.evidence} ({reason})", remedy=told.remedy))
    tell(Told(name="weight_sync", status="passed", evidence="pushed weights answer, and only when pushed"))
    return [as_sample(call, reply, advantage=1.0) for call, reply in zip(calls, replies, strict=True)]


def _trainer(recipe: Recipe, model_dir: Path, samples: Sequence[Sample], scratch: Path, tell: Tell) -> None:
    from lego_core.proofs.trainer import measure, prove_agreement, prove_checkpoint, prove_routes
    from lego_core.training.trainer import TrainerSpec

    spec = TrainerSpec(
        model_dir=model_dir,
        config=recipe.train,
        temperature=recipe.rollout.temperature,
        seed=recipe.run.seed,
    )
    aligned = measure(spec, samples)
    tell(prove_agreement(aligned))
    tell(prove_routes(spec, samples, aligned))
    tell(prove_checkpoint(spec, samples, scratch))


if __name__ == "__main__":
    sys.exit(main())
