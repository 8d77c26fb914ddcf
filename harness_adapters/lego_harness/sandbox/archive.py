"""Files to a tar stream and back, for sandboxes whose file system is not the host's.

Invariant: of a stream from a sandbox only regular files are taken, by path and content, within the
export bounds; a stream that is cut short or malformed gives what came before.
"""

from __future__ import annotations

import contextlib
import io
import tarfile
from collections.abc import Mapping

from lego_harness.errors import SetupError
from lego_harness.sandbox.base import MAX_EXPORT_BYTES, MAX_EXPORT_FILES
from lego_harness.sandbox.workspace import checked_path, is_exported


def pack(files: Mapping[str, bytes]) -> bytes:
    """A tar of regular files; parents are made by whoever extracts. Raises SetupError for bad paths."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(checked_path(name).as_posix())
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def unpack(stream: bytes) -> dict[str, bytes]:
    """Regular files by relative path; stops just past the export bounds."""
    files: dict[str, bytes] = {}
    left = MAX_EXPORT_BYTES
    with (
        contextlib.suppress(tarfile.TarError, EOFError),
        tarfile.open(fileobj=io.BytesIO(stream), mode="r:") as tar,
    ):
        for entry in tar:
            if left < 0 or len(files) > MAX_EXPORT_FILES:
                break
            if not entry.isreg():
                continue
            with contextlib.suppress(SetupError):
                name = checked_path(entry.name).as_posix()
                if is_exported(name):
                    files[name] = _content(tar, entry, left + 1)
                    left -= len(files[name])
    return dict(sorted(files.items()))


def _content(tar: tarfile.TarFile, entry: tarfile.TarInfo, limit: int) -> bytes:
    """At most `limit` bytes: a sparse file may claim any size."""
    file = tar.extractfile(entry)
    assert file is not None
    with file:
        return file.read(limit)
