"""`lego export`: a trained policy as a model folder that others can load. Options only."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--step", type=click.IntRange(min=1), help="Of which step.  [default: the newest checkpoint]")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="A folder to be made."
)
def export(run: Path | None, step: int | None, out: Path) -> int:
    """Write the policy of a RUN as a Hugging Face checkpoint. Without RUN the newest in ./runs."""
    from lego_control.supervisor import run_module
    from lego_core.store import newest_run

    chosen = ["--step", str(step)] if step else []
    found = run or newest_run(Path("runs"))
    return run_module("lego_core.training.export", [str(found), "--out", str(out), *chosen])
