"""The commands that look at runs while they go on, and the one that writes examples to look at.

As in `cli.py`, what a command needs is imported when it runs.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path

import click

from lego_control.finite import finite
from lego_control.options import RUNS
from lego_harness.errors import UsageError

THEMES = click.Choice(["lego-dark", "lego-light", "lego-contrast", "lego-okabe"])
JSON = click.option("--json", "for_programs", is_flag=True, help="One JSON object per line.")


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option(
    "--allow-control",
    is_flag=True,
    help="Let ctrl+s ask a run to stop, and e label rollouts.  [default: read-only]",
)
@click.option(
    "--ascii", "ascii_only", is_flag=True, help="Draw in ASCII.  [default: where the locale is not UTF-8]"
)
@click.option(
    "--theme",
    type=THEMES,
    default="lego-dark",
    show_default=True,
    help="Colour theme; NO_COLOR is respected.",
)
@click.option(
    "--web", is_flag=True, help="Show it in a browser on this machine, read-only, at a secret address."
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of --web.  [default: any]")
def watch(path: Path | None, allow_control: bool, ascii_only: bool, theme: str, web: bool, port: int) -> int:
    """Watch the runs in PATH (one run, or a folder of runs) in the terminal. Default: ./runs."""
    root = _existing(path or RUNS)
    if web:
        if allow_control:
            raise UsageError("--web only looks: --allow-control goes with the terminal")
        from lego_tui.web import serve

        command = [sys.executable, "-m", "lego_control", "watch", str(root.resolve()), "--theme", theme]
        return serve(command, port=port, say=click.echo)
    _require_screen()
    from lego_tui.app import Watch
    from lego_tui.ascii import is_needed
    from lego_tui.feed.fleet import Fleet

    app = Watch(
        Fleet(root), allow_control=allow_control, ascii_only=ascii_only or is_needed(), theme_name=theme
    )
    gc.freeze()  # what is imported stays: to look through it for garbage again would cost a key 50 ms
    app.run()
    return 0


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option(
    "-n", "--last", type=click.IntRange(min=0), help="Start with this many past steps.  [default: all]"
)
@click.option("--no-follow", is_flag=True, help="Print what is there and exit.")
@JSON
def tail(run: Path | None, last: int | None, no_follow: bool, for_programs: bool) -> int:
    """Print what happens in a RUN, line by line, until it ends. Default: the newest run in ./runs."""
    from rich.console import Console

    from lego_core.store import newest_run
    from lego_tui.feed.run import RunFeed
    from lego_tui.tail_lines import line, news

    root = _existing(run or newest_run(RUNS))
    if not (root / "run.json").exists():
        raise UsageError(f"{root} is no run: it has no run.json; expected a folder made by lego train")
    feed, console = RunFeed(root), Console(highlight=False)
    try:
        for item in news(feed, last=last, follow=not no_follow):
            if for_programs:
                click.echo(item.as_json())
            else:
                console.print(line(item, feed), soft_wrap=True)
    except KeyboardInterrupt:
        return 130
    return 0


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("--once", is_flag=True, help="Print one table and exit.")
@JSON
def top(path: Path | None, once: bool, for_programs: bool) -> int:
    """Show the runs in PATH as a table that updates itself. Default: ./runs."""
    from rich.console import Console
    from rich.live import Live

    from lego_tui.feed.fleet import Fleet
    from lego_tui.fleet_table import facts
    from lego_tui.progress import can_redraw
    from lego_tui.top import catch_up, table

    fleet, console = Fleet(_existing(path or RUNS)), Console()
    catch_up(fleet)
    if for_programs:
        for run in fleet.runs.values():
            click.echo(json.dumps(facts(run), allow_nan=False))
    elif once or not can_redraw(console):
        console.print(table(fleet, console.width), no_wrap=True)
    else:
        try:
            with Live(table(fleet, console.width), console=console, auto_refresh=False) as live:
                while True:
                    time.sleep(1)
                    fleet.poll()
                    live.update(table(fleet, console.width), refresh=True)
        except KeyboardInterrupt:
            return 130
    return 0


@click.command("demo-runs")
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--only", "names", multiple=True, metavar="NAME", help="healthy, environment-failure, collapse, …"
)
@click.option("--steps", type=click.IntRange(min=4), default=24, show_default=True, help="Steps of each run.")
@click.option("--live", metavar="NAME", help="Instead, write one run at the pace of a live one.")
@click.option(
    "--seconds-per-step", type=click.FloatRange(min=0), default=3.0, show_default=True, callback=finite
)
@JSON
def demo_runs(
    out: Path,
    names: tuple[str, ...],
    steps: int,
    live: str | None,
    seconds_per_step: float,
    for_programs: bool,
) -> int:
    """Write simulated runs into OUT, to look at with lego watch: one healthy, four that went bad."""
    from lego_control.demo_runs.write import write_demo_runs, write_live
    from lego_tui.safe import clean

    if live:
        run = write_live(out, live, steps=steps, seconds_per_step=seconds_per_step)
        click.echo(json.dumps({"run": str(run)}) if for_programs else clean(run))
        return 0
    for story, run in write_demo_runs(out, names, steps):
        said = {"run": str(run), "name": story.name, "planted": story.says}
        click.echo(json.dumps(said) if for_programs else f"{story.name:20}  {clean(run)}")
    if not for_programs:
        click.echo(
            f"\nLook at them with: lego watch {clean(out)}\nOne is healthy; why did each other go bad?"
        )
    return 0


def _require_screen() -> None:
    """Raise UsageError if nothing can be drawn; a browser, where Textual names its driver, is not a terminal but
    can."""
    from rich.console import Console

    from lego_tui.progress import can_redraw

    if not can_redraw(Console()) and "TEXTUAL_DRIVER" not in os.environ:
        raise UsageError(
            "lego watch draws on a terminal that can move its cursor, and this is none (a pipe, a file or TERM=dumb); "
            "lego top and lego tail print lines, lego watch --web shows it in a browser"
        )


def _existing(path: Path) -> Path:
    if not path.is_dir():
        raise UsageError(
            f"{path} is no folder; expected a folder of runs, or a run: lego demo-runs DIR writes examples"
        )
    return path


COMMANDS = [watch, tail, top, demo_runs]
