"""`lego export --format atif|jsonl|parquet|otel`: the trajectories of a run in formats that other tools read.

Owns the files and their order. Invariants: secrets are removed before a byte is written; a file is there completely or
not at all; trajectories pass through one at a time (in Parquet, at most one row group of them), so that a run of any
size fits into memory. Reads the run, and writes elsewhere.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lego_control.atif import as_atif
from lego_control.otel import as_span_lines
from lego_control.redact import redact
from lego_core.store import RunReader
from lego_core.store.json_records import to_json
from lego_harness.errors import LegoError, UsageError
from lego_harness.output import writing
from lego_harness.types import Trajectory

ROW_GROUP = 200
Json = dict[str, Any]


def export(
    run: Path,
    out: Path,
    kind: str,
    *,
    steps: tuple[int, int] | None,
    ids: tuple[str, ...],
    with_tokens: bool,
    complain: Callable[[str], None],
) -> int:
    """Write what was chosen to `out`; returns how many trajectories. One that cannot be read is reported to
    `complain` and left out. Raises UsageError if nothing matches or `out` exists."""
    reader = RunReader(run)
    reader.info()
    entries = [entry for entry in reader.trajectory_index() if _is_chosen(entry.id, entry.step, steps, ids)]
    if not entries:
        raise UsageError(f"{run}: no trajectory matches; lego show lists the steps")
    if out.exists():
        raise UsageError(f"--out {out}: is there already; choose a new name")

    def loaded() -> Iterator[Trajectory]:
        for entry in entries:
            try:
                yield reader.load(entry)
            except LegoError as error:
                complain(str(error))

    draft = out.with_name(out.name + ".part")
    with writing(f"--out {out}"):
        number = _WRITERS[kind](loaded(), draft, run.resolve().name, with_tokens)
        draft.rename(out)
    return number


def _is_chosen(
    trajectory_id: str, step: int | None, steps: tuple[int, int] | None, ids: tuple[str, ...]
) -> bool:
    in_steps = steps is None or (step is not None and steps[0] <= step <= steps[1])
    return in_steps and (not ids or trajectory_id in ids)


def _plain(trajectory: Trajectory, run: str, with_tokens: bool) -> Json:
    """Every field of ours; arrays as base64, or left out with the tokens."""
    record = to_json(trajectory)
    record["run"] = run
    if not with_tokens:
        for part in (*record["turns"], *record["branches"]):
            for name in ("context_ids", "sampled_ids", "logprobs", "routes", "ids", "mask", "versions"):
                part.pop(name, None)
    return redact(record)


def _atif(found: Iterator[Trajectory], out: Path, run: str, with_tokens: bool) -> int:
    """A folder with one document per trajectory, as Harbor keeps them."""
    out.mkdir()
    number = 0
    for number, trajectory in enumerate(found, start=1):  # noqa: B007 (counted)
        document = redact(as_atif(trajectory, run=run, with_tokens=with_tokens))
        (out / f"{_file_name(trajectory.id)}.json").write_text(json.dumps(document))
    return number


def _file_name(trajectory_id: str) -> str:
    """The id if it is a plain name: somebody else's run may contain anything."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}", trajectory_id):
        return trajectory_id
    return "id-" + hashlib.sha256(trajectory_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _lines(found: Iterator[Trajectory], out: Path, run: str, with_tokens: bool) -> int:
    number = 0
    with out.open("w", encoding="ascii") as file:
        for number, trajectory in enumerate(found, start=1):  # noqa: B007 (counted)
            file.write(json.dumps(_plain(trajectory, run, with_tokens)) + "\n")
    return number


def _otel(found: Iterator[Trajectory], out: Path, run: str, with_tokens: bool) -> int:
    """OTLP JSON lines, which a collector's file receiver reads."""
    del with_tokens  # spans hold no tokens
    number = 0
    with out.open("w", encoding="ascii") as file:
        for number, trajectory in enumerate(found, start=1):  # noqa: B007 (counted)
            file.write(json.dumps(redact(as_span_lines(trajectory, run))) + "\n")
    return number


def _parquet(found: Iterator[Trajectory], out: Path, run: str, with_tokens: bool) -> int:
    """One row per trajectory; numbers as columns, the document as JSON."""
    pa, pq = _arrow()
    names = ("id", "run", "task", "stop_reason", "reward", "num_turns", "sampled", "atif")
    kinds = (*(pa.string(),) * 4, pa.float64(), pa.int32(), pa.int64(), pa.string())
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    number = 0
    rows: list[Json] = []
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for number, trajectory in enumerate(found, start=1):  # noqa: B007 (counted)
            rows.append(_row(trajectory, run, with_tokens))
            if len(rows) == ROW_GROUP:
                writer.write_table(pa.Table.from_pylist(rows, schema=schema))
                rows.clear()
        writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return number


def _arrow() -> tuple[Any, Any]:
    """pyarrow, which is large and needed here only."""
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise UsageError(
            f"--format parquet needs pyarrow, which is not installed; run: {sys.executable} -m pip install 'pyarrow>=23'"
        ) from error


def _row(trajectory: Trajectory, run: str, with_tokens: bool) -> Json:
    document = as_atif(trajectory, run=run, with_tokens=with_tokens)
    return redact(
        {
            "id": trajectory.id,
            "run": run,
            "task": trajectory.task_id,
            "stop_reason": trajectory.stop_reason.value,
            "reward": trajectory.grade.reward if trajectory.grade else None,
            "num_turns": len(trajectory.turns),
            "sampled": trajectory.num_sampled,
            "atif": json.dumps(redact(document)),
        }
    )


_WRITERS = {"atif": _atif, "jsonl": _lines, "parquet": _parquet, "otel": _otel}
