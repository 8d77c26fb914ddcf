"""`lego report`, `lego compare`, `lego review`: their options, nothing else. What they need is imported when they run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from lego_control.options import RUNS
from lego_harness.errors import UsageError
from lego_harness.output import writing

if TYPE_CHECKING:
    from lego_control.report.parts import Part

MAX_RUNS = 8
FILE = click.Path(path_type=Path)


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@click.option("--html", type=FILE, metavar="F", help="Write one self-contained HTML file.")
@click.option("--md", type=FILE, metavar="F", help="Write Markdown.  [default: to the terminal]")
@click.option("--only", metavar="A,B", help="Only these parts: table3,fig5,…  [default: all]")
@click.option("--json", "for_programs", is_flag=True, help="The parts as one JSON object.")
def report(run: Path | None, html: Path | None, md: Path | None, only: str | None, for_programs: bool) -> int:
    """Compute the paper's tables and figures for a RUN. Default: the newest run in ./runs."""
    from lego_control.report.make import make
    from lego_control.report.source import Source
    from lego_core.store import newest_run

    root = _run(run or newest_run(RUNS))
    wanted = [name.strip() for name in (only or "").split(",") if name.strip()]
    source = Source(root)
    return _tell(f"{source.feed.name}: {source.feed.status}", make(source, wanted), html, md, for_programs)


@click.command()
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path))
@click.option("--html", type=FILE, metavar="F", help="Write one self-contained HTML file.")
@click.option("--md", type=FILE, metavar="F", help="Write Markdown.  [default: to the terminal]")
@click.option("--json", "for_programs", is_flag=True, help="The parts as one JSON object.")
def compare(runs: tuple[Path, ...], html: Path | None, md: Path | None, for_programs: bool) -> int:
    """Compare RUNS: their recipes, curves, last steps, and the tasks that they share."""
    from lego_control.report.compare import parts
    from lego_tui.feed.run import RunFeed

    if not 2 <= len(runs) <= MAX_RUNS:
        raise UsageError(f"lego compare got {len(runs)} runs, expected 2 to {MAX_RUNS}")
    feeds = [RunFeed(_run(root)) for root in runs]
    for feed in feeds:
        feed.read_all()
    return _tell(" against ".join(feed.name for feed in feeds), parts(feeds), html, md, for_programs)


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--label", "rollout", metavar="ROLLOUT", help="Label this rollout, with --as.")
@click.option(
    "--as", "label", type=click.Choice(["fine", "hacked", "broken_task", "broken_grader", "odd"]),
    help="The label.",
)  # fmt: skip
@click.option("--exclude", is_flag=True, help="Also ask that its task leave the pool.")
@click.option("--note", default="", help="Reason for the label.")
@click.option("--export", "out", type=FILE, metavar="F", help="Write all labels as JSON lines.")
@click.option("--json", "for_programs", is_flag=True, help="One JSON object per line.")
def review(
    run: Path,
    limit: int,
    rollout: str | None,
    label: str | None,
    exclude: bool,
    note: str,
    out: Path | None,
    for_programs: bool,
) -> int:
    """List what a person should look at in a RUN, or label a rollout. Labels are kept for good."""
    from lego_core.store.json_records import to_json
    from lego_core.store.labels import read_labels

    root = _run(run)
    if rollout is not None:
        if label is None:
            raise UsageError("--label names a rollout; say what it is with --as")
        return _label(root, rollout, label, exclude, note)
    if label is not None or exclude or note:
        raise UsageError(
            "--as, --exclude and --note say something of one rollout; name it with --label ROLLOUT"
        )
    if out is not None:
        told = "".join(json.dumps(to_json(said)) + "\n" for said in read_labels(root))
        _write(out, told)
        return 0
    return _queue(root, limit, for_programs)


def _queue(root: Path, limit: int, for_programs: bool) -> int:
    from lego_core.store.json_records import to_json
    from lego_tui.feed.details import Reading
    from lego_tui.feed.run import RunFeed
    from lego_tui.reviewing import looked, queue, to_open
    from lego_tui.safe import clean, one_line

    feed = RunFeed(root)
    feed.read_all()
    entries, reading = to_open(feed, feed.newest_step), Reading(feed)
    reading.read_details(entries)
    opened = looked(reading, entries)
    found = queue(opened, feed.labels)
    for item in found[:limit]:
        if for_programs:
            click.echo(json.dumps(to_json(item)))
        else:
            reward = "none" if item.reward is None else f"{item.reward:g}"
            head = f"{item.rollout}  reward {reward}  {item.task}" + (
                f"  [{item.label}]" if item.label else ""
            )
            click.echo("\n    ".join([one_line(head, 160), *item.reasons]))
    if not for_programs:
        if told := feed.unread(len(entries) - len(opened)):
            click.echo(told)
        click.echo(
            f"{len(found)} to look at; lego review {clean(root)} --label ROLLOUT --as fine|hacked|… --note WHY"
        )
    return 0


def _label(root: Path, rollout: str, label: str, exclude: bool, note: str) -> int:
    from lego_core.store.labels import add_label, label_now
    from lego_core.store.mailbox import myself
    from lego_tui.feed.run import RunFeed

    feed = RunFeed(root)
    feed.read_all()
    entry = feed.index.find(rollout)
    if entry is None:
        raise UsageError(f"{root} holds no rollout {rollout!r}; lego review {root} lists some")
    add_label(root, label_now(rollout, entry.task, label, exclude=exclude, note=note, who=myself()))
    click.echo(
        f"{rollout} is labelled {label}" + (f"; {entry.task} should leave the pool" if exclude else "")
    )
    return 0


def _run(root: Path) -> Path:
    if not (root / "run.json").is_file():
        raise UsageError(f"{root} is no run: it has no run.json; expected a folder made by lego train")
    return root


def _tell(title: str, parts: Sequence[Part], html: Path | None, md: Path | None, for_programs: bool) -> int:
    if html:
        from lego_control.report.page import page

        _write(html, page(title, parts))
    if md or not (html or for_programs):
        from lego_control.report.markdown import markdown

        text = markdown(title, parts)
        _write(md, text) if md else click.echo(text, nl=False)
    if for_programs:
        from lego_core.store.json_records import to_json

        click.echo(json.dumps({"run": title, "parts": [_plain(to_json(part)) for part in parts]}))
    return 0


def _write(path: Path, text: str) -> None:
    from lego_tui.safe import clean

    with writing(path):
        path.write_text(text, encoding="utf-8", errors="replace")
    click.echo(f"{clean(path)}  {path.stat().st_size / 1000:.0f} kB", err=True)


def _plain(value: Any) -> Any:
    """Null for what JSON has no number for."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_plain(item) for item in cast(list[Any], value)]
    return None if value in ("NaN", "Infinity", "-Infinity") else value


COMMANDS = [report, compare, review]
