"""`lego tasks import`: a pool from what others publish, and why each task is or is not in it.

    Harbor task folders ──▶ copied where they can be rolled out and graded here ─┐
    SWE-bench JSON(L) + clones ──▶ task folders ─────────────────────────────────┴▶ DIR/TASK…  DIR/import.json

Owns options, display and exit codes: 0 when every task was taken, 1 when some were refused. Invariants: nothing is
left out without its reason; the new folder appears whole or not at all. Proves nothing: `lego tasks audit` does.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from lego_harness.errors import UsageError
from lego_harness.output import whole_folder

FILE = "import.json"


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
                click.echo(f"{'taken' if one.taken else 'refused':8} {one.task}: {one.said}")
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
    from lego_harness.tasks.folder import load_task

    for folder in sorted(path.parent for path in source.rglob("task.toml")):
        try:
            load_task(folder)
            if (into / folder.name).exists():
                raise UsageError("another folder has the same name, expected each once")
            shutil.copytree(folder, into / folder.name, symlinks=True)
            yield Import(task=folder.name, taken=True, said="")
        except UsageError as error:
            yield Import(task=folder.name, taken=False, said=str(error))


def _from_instances(source: Path, into: Path, clones: Path) -> Iterator[Import]:
    from lego_harness.sandbox.workspace import write_files
    from lego_harness.tasks.swebench import instance, rows, task_files

    for where, row in rows(source):
        name = where
        try:
            wanted = instance(row)
            name = wanted.instance_id
            files, note = task_files(wanted, clones)
            if (into / name).exists():
                raise UsageError(f"{where} has the instance_id of another, expected each once")
            write_files(into / name, files)
            _require_loads(into / name)
            yield Import(task=name, taken=True, said=note)
        except UsageError as error:
            yield Import(task=name, taken=False, said=str(error))


def _require_loads(folder: Path) -> None:
    from lego_harness.tasks.folder import load_task

    try:
        load_task(folder)
    except UsageError:
        shutil.rmtree(folder)
        raise
