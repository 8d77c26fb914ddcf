"""`lego plan`: options and the drawing of a plan. What it means is in `lego_core.simulation.plan`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from lego_core.simulation.plan import Plan

GPUS = click.Choice(["a100", "h100", "h200", "b200"])


@click.command()
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option("--gpus", type=click.IntRange(min=2), required=True, help="Number of GPUs.")
@click.option("--gpu", type=GPUS, default="h200", show_default=True, help="Type of GPU.")
@click.option("--concurrent", type=click.IntRange(min=1), help="Rollouts at a time.  [default: the recipe's]")
@click.option("--json", "for_programs", is_flag=True, help="One JSON object instead of tables.")
def plan(recipe: Path, gpus: int, gpu: str, concurrent: int | None, for_programs: bool) -> int:
    """Estimate memory, speed and idle time of a RECIPE, and compare schedules by simulation."""
    from lego_core.recipe_file import load_recipe
    from lego_core.simulation.capacity import GPUS
    from lego_core.simulation.plan import make_plan

    made = make_plan(load_recipe(recipe), GPUS[gpu], gpus, concurrent=concurrent)
    if for_programs:
        click.echo(json.dumps(asdict(made), indent=2))
    else:
        _draw(made)
    return 0


def _draw(plan: Plan) -> None:
    from lego_tui.words import duration, percent

    size, capacity = plan.size, plan.capacity
    click.echo(
        f"model       {plan.model}: {size.weights / 1e9:.1f} B weights, {size.active / 1e9:.1f} B active"
    )
    click.echo(
        f"trainer     {capacity.trainer_gpus} GPUs, {capacity.trainer_gb:.0f} GB each before activations, "
        f"a step {duration(capacity.train_s)} in float32"
    )
    click.echo(
        f"engines     {capacity.engine_gpus} GPUs, {capacity.engine_gb:.0f} GB of weights each, "
        f"{capacity.cached_tokens / 1e6:.1f} M tokens cached, {capacity.tokens_per_s:,.0f} tokens/s"
    )
    click.echo(f"weight sync {capacity.publish_s:.1f} s")
    click.echo(
        f"\n{plan.concurrent} rollouts at a time, the paper's stage times, the real controller simulated:"
    )
    click.echo("staleness   step time   trainer idle   engines idle   slots in use   versions behind")
    for row in plan.rows:
        click.echo(
            f"{row.max_staleness:9d}   {duration(row.step_s):>9}   {percent(row.trainer_idle):>12}   "
            f"{percent(row.engine_idle):>12}   {percent(row.slots_in_use):>12}   {row.mean_lag:15.2f}"
        )
