"""Environments that are mounted instead of pulled: only what is read is moved, on any engine.

A task's environment (packages, data) is one compressed read-only file, squashfs or EROFS, beside a small image
that all tasks share; it is mounted on the host once and shown read-only inside. Invariant: the kernel enforces
that nothing inside writes it, and no set-user-id bit or device node of such a file has any effect. Needs root
on the engine's machine; elsewhere it is refused, never replaced by a copy. Where an engine pulls images lazily
by itself (SOCI), that is the engine's business: `moved_bytes` tells nothing of it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from lego_harness.errors import SetupError
from lego_harness.sandbox.base import Mount
from lego_harness.text import one_line

_LIMIT_S = 1800.0
_BUILDERS = {
    ".squashfs": ("mksquashfs", "squashfs-tools", ("-comp", "zstd", "-noappend", "-no-progress", "-quiet")),
    ".erofs": ("mkfs.erofs", "erofs-utils", ("-zlz4",)),
}


def pack(folder: Path, file: Path) -> None:
    """Make `file` (.squashfs or .erofs) of a folder; whole or not at all. Raises SetupError."""
    if file.suffix not in _BUILDERS:
        raise SetupError(f"{file}: expected a name that ends in {' or '.join(_BUILDERS)}")
    program, package, flags = _BUILDERS[file.suffix]
    unfinished = file.with_name(f".{file.name}.{os.getpid()}")
    names = (folder, unfinished) if program == "mksquashfs" else (unfinished, folder)
    argv = [program, *flags, *names] if program == "mkfs.erofs" else [program, *names, *flags]
    try:
        _run(argv, f"{folder} cannot be packed", hint=f"; is {package} installed?")
        unfinished.rename(file)
    finally:
        unfinished.unlink(missing_ok=True)


def mounted(file: Path, target: str, *, cache: Path) -> Mount:
    """Show what `file` holds at `target`; mounted on the host at its first use. Raises SetupError."""
    if not file.is_file():
        raise SetupError(f"environment {file}: expected a packed file, got none; make it with `lazy.pack`")
    facts = file.stat()
    place = cache / "mounts" / f"{file.stem}-{facts.st_ino}-{facts.st_mtime_ns}"
    place.mkdir(parents=True, exist_ok=True)
    with (cache / "mounts" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_mount():
            flags = ["--types", file.suffix[1:], "--options", "loop,ro,nosuid,nodev"]
            _run(["mount", *flags, file, place], f"{file} cannot be mounted", hint="; this needs root")
            _begun(place).write_text(str(_read_of(place)))
    return Mount(source=place, target=target)


def release(cache: Path) -> list[Path]:
    """Unmount everything on the host; sandboxes that use it keep it to their end. What was unmounted."""
    done: list[Path] = []
    for place in sorted((cache / "mounts").glob("[!.]*")):
        with suppress(SetupError, OSError):  # a process of the host is in there
            if place.is_mount():
                _run(["umount", place], f"{place} cannot be unmounted")
            place.rmdir()
            _begun(place).unlink(missing_ok=True)
            done.append(place)
    return done


def moved_bytes(mount: Mount) -> int:
    """What was read of the packed file since it was mounted, read-ahead included; raises SetupError."""
    begun = _begun(mount.source)
    if not begun.is_file() or not mount.source.is_mount():
        raise SetupError(f"{mount.source} is no mounted environment: nothing counts its reads")
    return _read_of(mount.source) - int(begun.read_text())


def _begun(place: Path) -> Path:
    """Holds what its loop device had read before, for others."""
    return place.with_name(f".{place.name}.begun")


def _read_of(place: Path) -> int:
    device = os.stat(place).st_dev  # noqa: PTH116 of a folder that is a mount
    statistics = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat")
    return int(statistics.read_text().split()[2]) * 512


def _run(argv: Sequence[str | Path], complaint: str, *, hint: str = "") -> None:
    words = [str(word) for word in argv]
    if shutil.which(words[0]) is None:
        raise SetupError(f"{complaint}: no {words[0]} on PATH{hint}")
    try:
        ended = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{complaint}: {one_line(str(error))}") from error
    if ended.returncode != 0:
        raise SetupError(f"{complaint}: {one_line(ended.stderr or ended.stdout, keep='end')}{hint}")
