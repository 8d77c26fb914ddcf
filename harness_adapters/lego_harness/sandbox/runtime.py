"""The folder on the host that holds the bubblewrap sandboxes of every run, by label.

Layout: `ROOT/LABEL/ID/{owner,etc,workspace,tmp,home}`. Invariant: ROOT belongs to this user and nobody
else can enter it. Removing one sandbox means: kill what runs in it, wait until it is gone, delete.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
import tempfile
import time
from pathlib import Path

from lego_harness.errors import SetupError
from lego_harness.sandbox import ownership
from lego_harness.sandbox.base import Standing
from lego_harness.sandbox.workspace import remove_tree

LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def label_folder(label: str) -> Path:
    """Where the sandboxes of a run live; raises SetupError for a label that is no plain name."""
    if not LABEL.fullmatch(label):
        raise SetupError(f"sandbox label {label!r}: expected letters, digits, dots and dashes")
    return _root() / label


def new_folder(label: str) -> Path:
    """A fresh folder signed by this process."""
    folder = label_folder(label) / secrets.token_hex(6)
    while not folder.exists():
        with contextlib.suppress(FileNotFoundError):  # the last sandbox beside it was just removed
            folder.mkdir(parents=True)
    (folder / "owner").write_text(ownership.me())
    for name in ("etc", "workspace", "tmp", "home"):
        (folder / name).mkdir()
    return folder


async def remove_folder(folder: Path) -> None:
    """Kill whatever runs in a sandbox and delete it; raises SetupError if something survives."""
    await kill_inside(folder)
    await asyncio.to_thread(remove_tree, folder)
    with contextlib.suppress(OSError):  # the run's other sandboxes lie beside it
        folder.parent.rmdir()


async def kill_inside(folder: Path) -> None:
    """Kill whatever runs in a sandbox and wait for its end; raises SetupError if it survives."""
    pids = _processes_in(folder)
    deadline = time.monotonic() + 10
    while pids and time.monotonic() < deadline:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.01)
        pids = _processes_in(folder)
    if pids:
        raise SetupError(f"processes {pids} of the sandbox {folder} cannot be killed; look at them by hand")


def standing(label: str | None = None) -> list[Standing]:
    """The sandboxes of a run, or of all runs of this user."""
    parents = [label_folder(label)] if label is not None else sorted(_root().iterdir())
    return [
        Standing(
            backend="bubblewrap",
            label=folder.parent.name,
            name=str(folder),
            is_orphan=ownership.is_gone(_owner(folder)),
            created=_created(folder),
        )
        for parent in parents
        for folder in _sandboxes_below(parent)
    ]


async def reap(label: str | None = None) -> int:
    """Remove the sandboxes whose owner has ended; how many there were."""
    left = [Path(one.name) for one in await asyncio.to_thread(standing, label) if one.is_orphan]
    for folder in left:
        with contextlib.suppress(FileNotFoundError):  # another reaper was there
            await remove_folder(folder)
    return len(left)


def _sandboxes_below(label: Path) -> list[Path]:
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # the run's last one was just removed
        return sorted(label.iterdir())
    return []


def _created(folder: Path) -> float:
    with contextlib.suppress(OSError):
        return folder.stat().st_mtime
    return time.time()


def _owner(folder: Path) -> str:
    with contextlib.suppress(OSError):
        return (folder / "owner").read_text()
    # Being made or removed right now, or left half-made: young folders are somebody's.
    with contextlib.suppress(OSError):
        return ownership.me() if folder.stat().st_mtime > time.time() - 60 else ""
    return ownership.me()


def _root() -> Path:
    root = Path(tempfile.gettempdir()) / f"lego-rl-{os.getuid()}"
    root.mkdir(mode=0o700, exist_ok=True)
    facts = root.lstat()
    if root.is_symlink() or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise SetupError(f"{root}: expected a folder of this user with mode 700; remove it or set TMPDIR")
    return root


def _processes_in(folder: Path) -> list[int]:
    """bwrap processes over this folder; everything inside ends with them (own pid namespace)."""
    needle = os.fsencode(folder) + b"/"
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            program, *arguments = (entry / "cmdline").read_bytes().split(b"\0")
            if program.rpartition(b"/")[2] == b"bwrap" and any(a.startswith(needle) for a in arguments):
                found.append(int(entry.name))
    return found
