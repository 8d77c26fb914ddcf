"""The commands of a run's life: list, stop, pause, resume, note. Options and words only.

As in `cli.py`, what a command needs is imported when it runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lego_control.options import OVERRIDES, RUNS_DIR

if TYPE_CHECKING:
    from lego_control.run import Run

RUN = click.argument("run", type=click.Path(path_type=Path))
WHY = click.option("--why", default="", help="Reason, for the audit log.")


@click.command("runs")
@RUNS_DIR
@click.option("--json", "for_programs", is_flag=True, help="One JSON object.")
@click.option(
    "--audit",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Instead, list who asked what of RUN, and why.",
)
def list_runs(runs_dir: Path, for_programs: bool, audit: Path | None) -> int:
    """List runs, newest first."""
    from lego_control.runs import Runs
    from lego_control.tools.status import runs_list
    from lego_tui.safe import clean

    if audit is not None:
        return _audit(audit, for_programs)
    found = runs_list(Runs(runs_dir), limit=1000)
    if for_programs:
        click.echo(found.model_dump_json(indent=2))
        return 0
    if not found.runs:
        click.echo(
            f"no run in {clean(runs_dir)}; lego quickstart makes one, lego demo-runs DIR writes examples"
        )
    for row in found.runs:
        reward = "     " if row.reward is None else f"{row.reward:.3f}"
        click.echo(f"{row.state:<11} {row.step:>5}/{row.num_steps:<5} {reward}  {row.run}")
    return 0


def _audit(path: Path, for_programs: bool) -> int:
    import json

    from lego_control.fence import line
    from lego_control.run import Run
    from lego_core.store.json_records import to_json

    run = Run(path)
    run.check()
    run.index.refresh("events")
    outcomes = {asking.request.id: asking.outcome for asking in run.asked()}
    if for_programs:
        told = [to_json(request) | {"outcome": outcomes.get(request.id, "")} for request in run.requests()]
        click.echo(json.dumps({"run": run.name, "requests": told}, indent=2))
        return 0
    for request in run.requests():
        outcome = outcomes.get(request.id, "")
        click.echo(
            f"{request.time[:19]}  {request.asked.value:<7} {outcome:<10} {line(request.who, 80)} ({line(request.via, 20)}): {line(request.why)}"
        )
    return 0


@click.command()
@RUN
@WHY
@click.option(
    "--now", is_flag=True, help="Do not wait for the end of the step; uncommitted work is redone on resume."
)
def stop(run: Path, why: str, now: bool) -> int:
    """Ask RUN to stop after its current step, with a checkpoint."""
    from lego_control.control import stop_now
    from lego_core.store.mailbox import myself

    found = _open(run)
    if now:
        request = stop_now(found, who=myself(), via="cli", why=why)
        click.echo(f"the trainer of {found.name} was told to end now: {request.id}")
        return 0
    return _ask(run, "stop", why, "it stops behind its current step, with a checkpoint")


@click.command()
@RUN
@WHY
def pause(run: Path, why: str) -> int:
    """Ask RUN to pause after its current step; it keeps its processes and memory."""
    return _ask(run, "pause", why, f"it waits behind its current step until: lego resume {run}")


@click.command()
@RUN
@WHY
@OVERRIDES
def resume(run: Path, why: str, overrides: tuple[str, ...]) -> int:
    """Continue a paused RUN, or restart one that has ended, in the background.

    When a run is restarted, --set may change its learning rate, gradient clip and KL coefficient.
    """
    from lego_control.control import changes_for
    from lego_control.detached import start
    from lego_core.store.mailbox import myself

    found = _open(run)
    flags = changes_for(found, overrides)
    if found.is_running():
        return _ask(run, "resume", why, "it goes on")
    started = start(["--resume", str(run), *flags], who=myself(), via="cli", why=why)
    click.echo(f"{started} goes on, detached; watch it with: lego show {started}")
    return 0


@click.command()
@RUN
@click.argument("text")
def note(run: Path, text: str) -> int:
    """Add TEXT to RUN's audit log."""
    return _ask(run, "note", text, "noted")


def _open(path: Path) -> Run:
    from lego_control.run import Run

    run = Run(path.resolve())
    run.check()
    return run


def _ask(path: Path, asked: str, why: str, told: str) -> int:
    from lego_control.control import ask
    from lego_core.store.mailbox import Asked, myself

    run = _open(path)
    request = ask(run, Asked(asked), who=myself(), via="cli", why=why)
    click.echo(f"{run.name}: {told} ({request.id})")
    return 0


COMMANDS = [list_runs, stop, pause, resume, note]
