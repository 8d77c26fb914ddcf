"""`lego tasks import`: a pool from what others publish, and why each task is or is not in it.

    Harbor task folders ──▶ copied where they can be rolled out and graded here ─┐
    SWE-bench JSON(L) + clones ──▶ task folders ─────────────────────────────────┴▶ DIR/TASK…  DIR/import.json

Owns options, display and exit codes: 0 when every task was taken, 1 when some were refused. Invariants: nothing is
left out without its reason; the new folder appears whole or not at all. Proves nothing: `lego tasks audit` does.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from lego_harness.errors import SetupError, UsageError
from lego_harness.output import whole_folder
from lego_harness.text import one_line

FILE = "import.json"
_NAMES = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EINVAL, errno.EILSEQ)
"""What a system says of a name rather than of itself."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Import:
    """What became of one task."""

    task: str
    """Its id, or where it stands in the source."""
    taken: bool
    said: str
    """Why it was refused, or what of it was left out; mostly empty."""


@click.command("import")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), required=True, help="Folder of the new pool.")
@click.option(
    "--clones", type=click.Path(path_type=Path), help="Where clones of the repositories lie, as OWNER/NAME."
)
def import_tasks(source: Path, out: Path, clones: Path | None) -> int:
    """Make a pool of SOURCE: a folder of Harbor tasks, or SWE-bench instances as .json or .jsonl."""
    with whole_folder(out) as unfinished:
        found = list(_imports(source, unfinished, clones))
        for one in found:
            if one.said:
                said = one_line(f"{one.task}: {one.said}", limit=1000)
                click.echo(f"{'taken' if one.taken else 'refused':8} {said}")
        taken = sum(one.taken for one in found)
        if not taken:
            raise UsageError(f"{source}: none of {len(found)} tasks can be taken, see above")
        told = {"source": str(source), "tasks": [asdict(one) for one in found]}
        (unfinished / FILE).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    click.echo(f"{taken} of {len(found)} tasks in {out}; next: lego tasks audit {out}")
    return int(taken < len(found))


def _imports(source: Path, into: Path, clones: Path | None) -> Iterator[Import]:
    if source.is_dir():
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
        yield from _from_instances(source, into, clones)


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


def _from_instances(source: Path, into: Path, clones: Path) -> Iterator[Import]:
    from lego_harness.tasks.copying import free_place
    from lego_harness.tasks.instances import instance, rows
    from lego_harness.tasks.swebench import task_files

    seen = set[str]()
    for where, row in rows(source):
        name = where
        try:
            wanted = instance(row)
            name = wanted.instance_id
            files, note = task_files(wanted, clones)
            if name in seen:
                raise UsageError(f"{where} has the instance_id of another, expected each once")
            place = free_place(into, name)
            _written(place, files)
            seen.add(name)
            yield Import(task=name, taken=True, said=note)
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
