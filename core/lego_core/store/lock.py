"""One writer per run: an exclusive lock that readers can see without ever taking it.

Uses open-file-description locks, because asking for one (`F_OFD_GETLK`) leaves no trace: a reader that
probed by locking could make a writer's start fail. The kernel drops the lock when its holder dies,
however it dies. Linux only, as the sandboxes are.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

_FLOCK = "hhqqi4x"
"""struct flock of 64-bit Linux: type, whence, start, length, pid; length 0 is the whole file."""


def try_lock(path: Path) -> int | None:
    """Take the lock for the life of the returned descriptor; None when somebody else has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _request())
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise
    return descriptor


def is_locked(path: Path) -> bool:
    """True while a writer lives."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _request())
    finally:
        os.close(descriptor)
    return struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK


def _request() -> bytes:
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
