"""`lego tasks import`: a pool from what others publish, and why each task is or is not in it.

    Harbor task folders ──▶ copied where they can be rolled out and graded here ─┐
    SWE-bench JSON(L) + clones ──▶ task folders ─────────────────────────────────┴▶ DIR/TASK…  DIR/import.json

Owns options, display and exit codes: 0 when every task was taken, 1 when some were refused. Invariants: nothing is
left out without its reason; the new folder appears completely or not at all. Proves nothing: `lego tasks audit` does.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from lego_control.finite import finite
from lego_harness.errors import SetupError, UsageError
from lego_harness.output import whole_folder
from lego_harness.text import one_line

FILE = "import.json"
_NAMES = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL, errno.EILSEQ)
"""Errors that concern a name rather than the system itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Import:
    """What became of one task."""

    task: str
    """Its id, or its place in the source."""
    taken: bool
    said: str
    """Why it was refused, or what was left out of it; usually empty."""
    held_out: bool = False
    """By us; a Harbor task says so itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HoldOut:
    """Which instances are for evaluation only."""

    share: float
    by: str
    """`instance`, or `repository`: with the latter no workspace of one side can hold a fix of the other."""

    def takes(self, instance_id: str, repo: str) -> bool:
        from lego_harness.tasks.held_out import is_held_out

        return is_held_out(repo if self.by == "repository" else instance_id, self.share)


@click.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the new pool.")
@click.option(
    "--clones", type=click.Path(path_type=Path), help="Folder with clones of the repositories, as OWNER/NAME."
)
@click.option(
    "--heldout",
    "share",
    type=click.FloatRange(0, 1),
    default=0.0,
    show_default=True,
    callback=finite,
    help="Share of the instances to hold out for evaluation, chosen by a hash of their names.",
)
@click.option(
    "--heldout-by",
    "by",
    type=click.Choice(["instance", "repository"]),
    default="instance",
    show_default=True,
    help="Hold out single instances or whole repositories.",
)
def import_tasks(source: Path, out: Path, clones: Path | None, share: float, by: str) -> int:
    """Make a task pool from SOURCE: a folder of Harbor tasks, or SWE-bench instances as .json or .jsonl."""
    with whole_folder(out) as unfinished:
        found = list(_imports(source, unfinished, clones, HoldOut(share=share, by=by)))
        for one in found:
            if one.said:
                said = one_line(f"{one.task}: {one.said}", limit=1000)
                click.echo(f"{'taken' if one.taken else 'refused':8} {said}")
        taken = sum(one.taken for one in found)
        if not taken:
            raise UsageError(f"{source}: none of {len(found)} tasks can be taken, see above")
        tasks = [{"task": one.task, "taken": one.taken, "said": one.said} for one in found]
        kept = [one.task for one in found if one.held_out]
        told = {"source": str(source), "tasks": tasks} | ({"heldout": kept} if share else {})
        (unfinished / FILE).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    held = f", {len(kept)} of them held out" if share else ""
    click.echo(f"{taken} of {len(found)} tasks in {out}{held}; next: lego tasks audit {out}")
    return int(taken < len(found))


def _imports(source: Path, into: Path, clones: Path | None, held: HoldOut) -> Iterator[Import]:
    if source.is_dir():
        if held.share:
            raise UsageError(
                '--heldout goes with instances; a Harbor task says split = "heldout" in its task.toml'
            )
        yield from _from_folders(source, into)
    elif source.suffix not in (".json", ".jsonl"):
        raise UsageError(
            f"{source}: expected a folder of Harbor tasks, or .json or .jsonl; convert other tables to JSON Lines"
        )
    elif clones is None:
        raise UsageError(
            "--clones is missing: instances name repositories, expected the folder of their clones"
        )
    else:
        yield from _from_instances(source, into, clones, held)


def _from_folders(source: Path, into: Path) -> Iterator[Import]:
    from lego_harness.tasks.copying import copy_task, unseen_links
    from lego_harness.tasks.folder import task_folders

    for folder in task_folders(source):
        try:
            name = copy_task(folder, into)
            links = unseen_links(folder)
            said = f"{len(links)} links to folders show nothing, first {links[0]}" if links else ""
            yield Import(task=name, taken=True, said=said)
        except UsageError as error:
            yield Import(task=folder.name or str(folder), taken=False, said=str(error))


def _from_instances(source: Path, into: Path, clones: Path, held: HoldOut) -> Iterator[Import]:
    from lego_harness.tasks.copying import free_place
    from lego_harness.tasks.instances import instance, rows
    from lego_harness.tasks.swebench import task_files

    seen = set[str]()
    for where, row in rows(source):
        name = where
        try:
            wanted = instance(row)
            name = wanted.instance_id
            is_held = held.takes(wanted.instance_id, wanted.repo)
            files, note = task_files(wanted, clones, held_out=is_held)
            if name in seen:
                raise UsageError(f"{where} has the instance_id of another, expected each once")
            place = free_place(into, name)
            _written(place, files)
            seen.add(name)
            yield Import(task=name, taken=True, said=note, held_out=is_held)
        except UsageError as error:
            yield Import(task=name, taken=False, said=str(error))


def _written(place: Path, files: Mapping[str, bytes]) -> None:
    from lego_harness.sandbox.workspace import write_files
    from lego_harness.tasks.copying import require_loads

    try:
        write_files(place, files)
    except SetupError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        if error.errno not in _NAMES:
            raise
        raise UsageError(f"its files cannot be written under their names: {error.strerror}") from error
    require_loads(place)
