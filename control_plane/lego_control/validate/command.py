"""`lego validate`: the options, and how its parts start and stop.

Exit codes: 0 everything passed or is waived, 1 a check failed, 2 the recipe is wrong, 3 a check could not
be carried out, 143 it was told to end, and closed what it had opened. There is no --force: a check that may fail
is waived in the recipe, by name and with a reason.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from lego_control.ci.outcome import Exit, Outcome, Report, Status
from lego_control.ci.publish import Outputs, outputs, publish
from lego_control.ending import run_to_its_end
from lego_control.options import OVERRIDES
from lego_control.validate.base import PROFILES, Ground

BUDGETS = {"smoke": "20m", "parity": "2h", "full": "24h"}
MAX_LOG = 2000


@click.command()
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option("--profile", type=click.Choice(PROFILES), default="smoke", show_default=True)
@click.option("--budget", metavar="DURATION", help="Time limit, as in 90s, 20m, 2h.  [default: by profile]")
@OVERRIDES
@outputs
def validate(
    recipe: Path,
    profile: str,
    budget: str | None,
    overrides: tuple[str, ...],
    junit: Path | None,
    json_file: str | None,
    summary: str | None,
) -> int:
    """Check everything that a run with this RECIPE relies on, before it starts."""
    wanted = Outputs(junit=junit, json=json_file, summary=summary)
    return prove(recipe, profile, budget or BUDGETS[profile], overrides, wanted)


def prove(recipe: Path, profile: str, budget: str, overrides: tuple[str, ...], wanted: Outputs) -> int:
    """Run the plan and publish; the exit code."""
    from lego_control.ci.waiting import seconds_of
    from lego_core.recipe_file import load_recipe
    from lego_harness.errors import UsageError

    budget_s, started = seconds_of(budget), time.monotonic()
    properties = {"recipe": str(recipe), "profile": profile, "python": sys.version.split()[0]}
    try:
        loaded = load_recipe(recipe, overrides)
    except UsageError as error:
        bad = Outcome(
            name="recipe",
            status=Status.FAILED,
            seconds=time.monotonic() - started,
            evidence=str(error),
            remedy="repair the keys it names",
        )
        publish(Report(title="validate", outcomes=(bad,), properties=properties), wanted)
        return Exit.USAGE
    good = Outcome(
        name="recipe",
        status=Status.PASSED,
        seconds=time.monotonic() - started,
        evidence=f"{loaded.harness.name}, {loaded.train.steps} steps, seed {loaded.run.seed}",
    )
    properties["seed"] = str(loaded.run.seed)

    async def rest() -> int:
        outcomes = (good, *await _run(loaded, profile, budget_s - good.seconds))
        return publish(Report(title="validate", outcomes=outcomes, properties=properties), wanted)

    return run_to_its_end(rest())


async def _run(recipe: Any, profile: str, budget_s: float) -> tuple[Outcome, ...]:
    from lego_control.validate.plan import plan
    from lego_control.validate.run import run_checks
    from lego_harness.errors import UsageError
    from lego_harness.sandbox.choose import choose_backend

    checks = plan()
    unknown = sorted(set(recipe.validation.waive) - {check.name for check in checks})
    if unknown:
        names = ", ".join(check.name for check in checks)
        raise UsageError(f"validation.waive names {unknown[0]!r}, expected a check: {names}")
    with tempfile.TemporaryDirectory(prefix="lego-validate-") as folder:
        ground = Ground(
            recipe=recipe,
            profile=profile,
            scratch=Path(folder),
            backend=choose_backend(recipe.sandbox.backend),
            proofs=core_proofs,
        )
        return await run_checks(
            checks, ground, budget_s=budget_s, waive=recipe.validation.waive, told=_progress
        )


def _progress(outcome: Outcome) -> None:
    if sys.stderr.isatty():
        click.echo(f"{outcome.status.value:>7}  {outcome.name}  {outcome.seconds:.1f} s", err=True)


async def core_proofs(ground: Ground) -> dict[str, Any]:
    """What the core's proofs say, by name; their process runs once per validation. Raises InfrastructureError with
    the end of its log if it said nothing."""
    from lego_harness.errors import InfrastructureError

    if "told" not in ground.made:
        ground.made["told"], ground.made["log"] = await _core(ground)
    told = ground.made["told"]
    if not told:
        raise InfrastructureError(
            f"the core's proofs said nothing; the end of their log: {ground.made['log']}"
        )
    return told


async def _core(ground: Ground) -> tuple[dict[str, Any], str]:
    recipe, out, log = (ground.scratch / name for name in ("recipe.json", "told.jsonl", "proofs.log"))
    recipe.write_text(ground.recipe.model_dump_json())
    command = [sys.executable, "-m", "lego_core.proofs", "--recipe", str(recipe), "--out", str(out)]
    with log.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *command,
            "--scratch",
            str(ground.scratch),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            await process.wait()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, 9)
                await process.wait()
    lines = out.read_text().splitlines() if out.exists() else []
    end = log.read_text(errors="replace")[-MAX_LOG:]
    return {told["name"]: told for told in map(json.loads, lines)}, end
