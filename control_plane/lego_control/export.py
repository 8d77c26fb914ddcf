"""`lego export`: a trained policy as a model folder, or the trajectories it came from. Options only."""

from __future__ import annotations

from pathlib import Path

import click

from lego_control.options import RUNS
from lego_harness.errors import UsageError

FORMATS = click.Choice(["model", "atif", "jsonl", "parquet", "otel"])


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--format", "kind", type=FORMATS, default="model", show_default=True, help="What to write.")
@click.option("--step", type=click.IntRange(min=1), help="Step of the checkpoint.  [default: the newest]")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="PATH",
    help="The folder (model, atif) or file to write.",
)
@click.option("--steps", metavar="FIRST[-LAST]", help="Only trajectories of these training steps.")
@click.option("--id", "ids", multiple=True, metavar="ID", help="Only this trajectory; repeatable.")
@click.option(
    "--no-tokens", is_flag=True, help="Leave token ids, log-probabilities and routes out of trajectories."
)
def export(
    run: Path | None,
    kind: str,
    step: int | None,
    out: Path,
    steps: str | None,
    ids: tuple[str, ...],
    no_tokens: bool,
) -> int:
    """Export the policy of a RUN as a Hugging Face checkpoint, or its trajectories with secrets removed.

    Default: the newest run in ./runs.
    """
    from lego_core.store import newest_run

    found = run or newest_run(RUNS)
    if kind == "model":
        if steps or ids or no_tokens:
            raise UsageError("--steps, --id and --no-tokens choose trajectories; give --format atif, too")
        return _export_model(found, out, step)
    if step is not None:
        raise UsageError(f"--step chooses a checkpoint; with --format {kind} give --steps {step}")
    return _export_trajectories(found, out, kind, _span(steps), ids, no_tokens)


def _export_model(run: Path, out: Path, step: int | None) -> int:
    from lego_control.supervisor import run_module

    chosen = ["--step", str(step)] if step else []
    return run_module("lego_core.training.export", [str(run), "--out", str(out), *chosen])


def _export_trajectories(
    run: Path, out: Path, kind: str, steps: tuple[int, int] | None, ids: tuple[str, ...], no_tokens: bool
) -> int:
    from lego_control.export_trajectories import export as write

    def complain(told: str) -> None:
        click.echo(f"lego: {told}", err=True)

    number = write(run, out, kind, steps=steps, ids=ids, with_tokens=not no_tokens, complain=complain)
    click.echo(f"{number} trajectories in {out}")
    return 0


def _span(steps: str | None) -> tuple[int, int] | None:
    if steps is None:
        return None
    first, dash, last = steps.partition("-")
    if not (first.isdigit() and (last.isdigit() or not dash)):
        raise UsageError(f"--steps got {steps!r}, expected a number or FIRST-LAST")
    return int(first), int(last) if dash else int(first)
