"""What people ask of a run, and how the trainer hears it.

    control/<id>.json     one Request a file, written by whoever asks; never changed, never removed
    events.jsonl          `acknowledged` events, written by the trainer at a step boundary

Owns both directions. Invariants: a request is there completely or not at all, so that any number of people on
any number of machines may ask at once, on a shared filesystem and without a lock; the requests are
the audit log (who, when, through what, why); a process never obeys what was asked before it started; and
nothing in the folder can disturb the trainer: a file that is not a request is skipped. Decides
no policy and stops nothing itself.
"""

from __future__ import annotations

import getpass
import os
import re
import secrets
import socket
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from lego_core.store.append import write_whole
from lego_core.store.json_records import decode, encode
from lego_harness.errors import InfrastructureError, LegoError

ACKNOWLEDGED = "acknowledged"
"""Kind of the event that answers a request; its fields: `request`, `asked`, `outcome`, `step`."""
MAX_REQUEST_BYTES = 64 * 2**10
_ID = re.compile(r"\d{8}T\d{12}Z-[0-9a-f]{8}")


class RunStopped(LegoError):
    """A person or the watchdog's policy wanted the run to stop and it did, after a checkpoint; exit code 4."""

    exit_code = 4


class Asked(StrEnum):
    """What may be asked. The trainer answers `stop`, `pause` and `resume`; the rest is for the record."""

    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    NOTE = "note"
    START = "start"
    WATCH = "watch"
    SIGNAL = "signal"
    """The trainer's process was told to end at once, without waiting for a step boundary."""
    ENDED = "ended"
    """Reported by a supervisor: the trainer's process is gone."""


TO_TRAINER = frozenset({Asked.STOP, Asked.PAUSE, Asked.RESUME})


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """One line of the audit log."""

    id: str
    """Sorts by time: `20260102T030405678901Z-0123abcd`."""
    asked: Asked
    time: str
    """ISO 8601 in UTC, by the clock of the one who asked."""
    who: str
    """`user@host`, and the client if one spoke for a person."""
    via: str
    """`cli`, `mcp`, `tui`, `supervisor`."""
    why: str
    fields: dict[str, Any] = field(default_factory=dict[str, Any])


def myself() -> str:
    """The `who` of a request that this process makes: `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def post(
    run_dir: Path, asked: Asked, *, who: str, via: str, why: str, fields: dict[str, Any] | None = None
) -> Request:
    """Leave a request in a run's mailbox. Raises InfrastructureError if it cannot be written."""
    now = datetime.now(UTC)
    request = Request(
        id=f"{now:%Y%m%dT%H%M%S%fZ}-{secrets.token_hex(4)}",
        asked=asked,
        time=now.isoformat(timespec="microseconds"),
        who=who,
        via=via,
        why=why,
        fields=fields or {},
    )
    folder = _folder(run_dir)
    try:
        folder.mkdir(exist_ok=True)
        write_whole(folder / f"{request.id}.json", encode(request) + b"\n")
    except OSError as error:
        raise InfrastructureError(
            f"{folder}: the request cannot be left there: {error.strerror}; "
            "ask as a user who may write the run directory"
        ) from error
    return request


def requests(run_dir: Path, *, after: str = "") -> tuple[Request, ...]:
    """The requests whose id sorts after `after`, oldest first; a file that is not a request is passed over."""
    found = (_read(path) for path in _files(run_dir) if path.stem > after)
    return tuple(request for request in found if request is not None)


class Mailbox:
    """The trainer's side: what is new since this process began, each told once."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._seen = {path.stem for path in _files(run_dir)}

    def new(self) -> tuple[Request, ...]:
        """Requests to the trainer that were not returned before, oldest first. Never raises."""
        fresh = [path for path in _files(self._run_dir) if path.stem not in self._seen]
        self._seen.update(path.stem for path in fresh)
        return tuple(r for r in map(_read, fresh) if r is not None and r.asked in TO_TRAINER)


def _folder(run_dir: Path) -> Path:
    return run_dir / "control"


def _files(run_dir: Path) -> Iterable[Path]:
    try:
        return sorted(path for path in _folder(run_dir).glob("*.json") if _ID.fullmatch(path.stem))
    except OSError:
        return ()


def _read(path: Path) -> Request | None:
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_REQUEST_BYTES:  # a pipe would be waited for
            return None
        request = decode(Request, path.read_bytes())
    except (OSError, ValueError):
        return None
    return request if request.id == path.stem else None
