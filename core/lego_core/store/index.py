"""A node-local SQLite index of one run directory: questions about millions of turns in milliseconds.

The JSONL files are the source of truth; this is a cache that is discarded and rebuilt whenever it does not fit them.
Owns the file and how far each source was read. Invariants: nothing is written to the run directory; a torn last line
waits; a later line of a step replaces an earlier one, and in steps.jsonl also the lines of later steps (`rewind.py`); a
source that was cut or replaced is read anew from its beginning. The file is on this machine's own disk, because
SQLite's log cannot be shared over a network filesystem; several processes may share it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sqlite3
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lego_core.store.index_rows import SOURCES, Source
from lego_core.store.layout import RunLayout
from lego_harness.errors import InfrastructureError, UsageError

VERSION = 3
"""Of the tables below; an index of another version is rebuilt."""
CHUNK_BYTES = 16 * 2**20
_TAIL_BYTES = 4096
_MOST = 2**63 - 1
_SCHEMA = """
CREATE TABLE source (name TEXT PRIMARY KEY, offset INTEGER, tail BLOB, bad INTEGER, rewound INTEGER);
CREATE TABLE metric (key TEXT, step INTEGER, value REAL, PRIMARY KEY (key, step)) WITHOUT ROWID;
CREATE VIEW metric_key AS WITH RECURSIVE each (key) AS (
    SELECT MIN(key) FROM metric
    UNION ALL SELECT (SELECT MIN(key) FROM metric WHERE key > each.key) FROM each WHERE each.key IS NOT NULL)
    SELECT key FROM each WHERE key IS NOT NULL;
CREATE TABLE heldout (key TEXT, step INTEGER, value REAL, PRIMARY KEY (key, step)) WITHOUT ROWID;
CREATE TABLE event (seq INTEGER PRIMARY KEY, time REAL, kind TEXT, step INTEGER, fields TEXT);
CREATE TABLE trajectory (
    seq INTEGER PRIMARY KEY, id TEXT, step INTEGER, task TEXT, stop_reason TEXT, reward REAL,
    sampled INTEGER, file TEXT, offset INTEGER, length INTEGER);
CREATE INDEX trajectory_step ON trajectory (step);
"""
"""One index serves both questions: which metrics exist is found by leaps through it, and one step of all metrics
from that; a second index by step would double the work."""

_TABLES = {"source", *(source.table for source in SOURCES.values())}


class RunIndex:
    """One run's index; safe to use from several threads."""

    def __init__(self, run_dir: Path, folder: Path | None = None) -> None:
        self._layout = RunLayout(root=run_dir)
        self._mutex = threading.RLock()
        name = hashlib.sha256(os.fsencode(run_dir.resolve())).hexdigest()[:24]
        self.path = (folder or private_folder()) / f"{name}-{VERSION}.sqlite"
        self._connection: sqlite3.Connection | None = None

    def refresh(self, *names: str) -> None:
        """Take in what was added to the sources of these names (all without any). Raises InfrastructureError."""
        with self._mutex:
            try:
                for name in names or tuple(SOURCES):
                    self._read_on(SOURCES[name])
            except sqlite3.DatabaseError:
                self._refresh_anew(names or tuple(SOURCES))

    def _refresh_anew(self, names: Sequence[str]) -> None:
        self._rebuild()
        try:
            for name in names:
                self._read_on(SOURCES[name])
        except sqlite3.Error as error:
            raise self._unusable(error) from error

    def _unusable(self, error: sqlite3.Error) -> InfrastructureError:
        return InfrastructureError(
            f"{self.path}: the index cannot be used: {error}; free space there, or set LEGO_INDEX to another folder"
        )

    def rows(self, question: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Answer one SQL question; constants of the program only, values through `?`. A number beyond what SQLite
        holds is the largest that it does. Raises InfrastructureError."""
        held = [max(-_MOST, min(v, _MOST)) if isinstance(v, int) else v for v in values]
        with self._mutex:
            try:
                return self._open().execute(question, held).fetchall()
            except sqlite3.Error as error:
                raise self._unusable(error) from error

    def series(self, key: str, first: int = 0, last: int = 2**62) -> list[tuple[int, float | None]]:
        """`(step, value)` of one metric, by step; None where it was recorded as absent."""
        question = "SELECT step, value FROM metric WHERE key = ? AND step BETWEEN ? AND ? ORDER BY step"
        found = self.rows(question, (key, first, last))
        return [(step, None if value is None else float(value)) for step, value in found]

    def num_bad_lines(self) -> int:
        """Whole lines that were no JSON object and were passed over."""
        return int(self.rows("SELECT COALESCE(SUM(bad), 0) FROM source")[0][0])

    def num_rewound(self, name: str) -> int:
        """A number that changes when rows of a source are taken back: while it stays, rows are only appended."""
        found = self.rows("SELECT rewound FROM source WHERE name = ?", (name,))
        return int(found[0][0]) if found else 0

    def close(self) -> None:
        with self._mutex:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = _connect(self.path)
        return self._connection

    def _rebuild(self) -> None:
        self.close()
        for path in self.path.parent.glob(f"{self.path.name}*"):
            with contextlib.suppress(OSError):
                path.unlink()

    def _read_on(self, source: Source) -> None:
        """Chunk by chunk, each in a transaction of its own: a killed reader loses one chunk's work."""
        path = source.path(self._layout)
        while True:
            db = self._open()
            db.execute("BEGIN IMMEDIATE")
            try:
                size, is_done = self._read_chunk(db, source, path)
                db.execute("COMMIT")
            except BaseException:
                db.execute("ROLLBACK")
                raise
            if is_done or not size:
                return

    def _read_chunk(self, db: sqlite3.Connection, source: Source, path: Path) -> tuple[int, bool]:
        """Bytes taken in, and whether that was all there is."""
        offset, tail, bad, rewound = _mark(db, source.name)
        try:
            with path.open("rb") as file:
                if not _continues(file.fileno(), offset, tail):
                    source.clear(db)
                    offset, bad, rewound = 0, 0, rewound + 1
                file.seek(offset)
                data = file.read(CHUNK_BYTES)
                if b"\n" not in data and len(data) == CHUNK_BYTES:  # one line of more than a chunk
                    data += file.readline()
        except FileNotFoundError:
            return 0, True
        except OSError as error:
            raise InfrastructureError(f"{path}: cannot be read: {error.strerror}") from error
        whole = data[: data.rfind(b"\n") + 1]
        if whole or not offset:
            num_bad, is_rewound = source.insert(db, whole.split(b"\n")[:-1])
            tail = (tail + whole)[-_TAIL_BYTES:]
            mark = (source.name, offset + len(whole), tail, bad + num_bad, rewound + is_rewound)
            db.execute("REPLACE INTO source VALUES (?, ?, ?, ?, ?)", mark)
        return len(whole), len(data) < CHUNK_BYTES


def private_folder() -> Path:
    """Where indexes are: `$LEGO_INDEX`, else a folder of this user's alone below the temporary one."""
    if chosen := os.environ.get("LEGO_INDEX"):
        folder = Path(chosen)
    else:
        folder = Path(tempfile.gettempdir()) / f"lego-index-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat(follow_symlinks=False)
    except OSError as error:
        raise InfrastructureError(
            f"{folder}: no index can be kept there: {error.strerror}; set LEGO_INDEX"
        ) from error
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise UsageError(
            f"{folder}: others may write it, expected a folder of yours alone; remove it or set LEGO_INDEX"
        )
    return folder


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")  # what a power cut spoils is rebuilt
    db.execute("BEGIN IMMEDIATE")
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        for statement in _SCHEMA.split(";"):
            db.execute(statement)
    elif tables != _TABLES:
        raise sqlite3.DatabaseError(f"{path} holds the tables {sorted(tables)}")
    db.execute("COMMIT")
    return db


def _mark(db: sqlite3.Connection, name: str) -> tuple[int, bytes, int, int]:
    found = db.execute("SELECT offset, tail, bad, rewound FROM source WHERE name = ?", (name,)).fetchone()
    return found or (0, b"", 0, secrets.randbits(31))  # an index built anew goes on with nothing


def _continues(descriptor: int, offset: int, tail: bytes) -> bool:
    """Whether the file still has what was read of it: its last bytes are where they were."""
    return os.pread(descriptor, len(tail), max(offset - len(tail), 0)) == tail
