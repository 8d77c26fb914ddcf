"""A project's published source archive, from the package index or a file, as path → bytes.

    NAME==VERSION ─▶ index, its list of files (PEP 691) ─▶ cache/sdists/NAME-VERSION.tar.gz ─▶ files

Invariants: nothing in the archive is executed or written out here, and no link in it is followed; an archive that is
used has the digest that was asked for, or that the index gives. PIP_INDEX_URL names another index.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
import urllib.parse
import urllib.request
from pathlib import Path

from lego_harness.cache import cache_folder
from lego_harness.errors import SetupError, UsageError
from lego_harness.sandbox.workspace import checked_path
from lego_harness.synthesis.catalogue import CATALOGUE, Pin
from lego_harness.text import one_line

MAX_BYTES = 4 * 2**20
MAX_FILES = 600
"""Limits of an unpacked project: every grading writes it again."""
_MAX_ARCHIVE = 16 * 2**20
_MAX_LIST = 64 * 2**20
_WAIT_S = 60.0
_INDEX = "https://pypi.org/simple"
_FORMAT = "application/vnd.pypi.simple.v1+json"
_SPEC = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)==([A-Za-z0-9][A-Za-z0-9.!+_-]*)")
_FILE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*?)-(\d[A-Za-z0-9.!+_]*)\.tar\.gz")


def pinned(said: str) -> Pin:
    """The project that a person names: by its name in the catalogue, as `NAME==VERSION`, or by an archive's path."""
    if said in CATALOGUE:
        return CATALOGUE[said]
    if found := _SPEC.fullmatch(said):
        known = CATALOGUE.get(found[1])
        return known if known and known.version == found[2] else Pin(name=found[1], version=found[2])
    if (found := _FILE.fullmatch(Path(said).name)) and Path(said).is_file():
        return Pin(
            name=found[1], version=found[2], sha256=hashlib.sha256(Path(said).read_bytes()).hexdigest()
        )
    raise UsageError(
        f"project {said!r}: expected NAME==VERSION, the path of a NAME-VERSION.tar.gz, or one of {', '.join(CATALOGUE)}"
    )


def project_files(said: str) -> dict[str, bytes]:
    """The files of an archive below its one folder; raises UsageError if it cannot be used, SetupError if it cannot
    be fetched."""
    pin = pinned(said)
    path = Path(said) if said.endswith(".tar.gz") else _cached(pin)
    return _unpacked(path)


def _cached(pin: Pin) -> Path:
    path = cache_folder() / "sdists" / f"{_normal(pin.name)}-{pin.version}.tar.gz"
    if not path.is_file() or (pin.sha256 and _digest(path.read_bytes()) != pin.sha256):
        data = _fetched(pin)
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(f".{os.getpid()}")
        scratch.write_bytes(data)
        scratch.rename(path)
    return path


def _fetched(pin: Pin) -> bytes:
    """The archive; raises UsageError if the index has none that fits."""
    index = os.environ.get("PIP_INDEX_URL", _INDEX).rstrip("/")
    page = f"{index}/{_normal(pin.name)}/"
    try:
        listed = json.loads(_get(page, _MAX_LIST))
        names = {f"{stem}-{pin.version}.tar.gz" for stem in (pin.name, _normal(pin.name).replace("-", "_"))}
        found = [file for file in listed["files"] if file["filename"] in names]
        if not found:
            raise UsageError(f"{pin.name}=={pin.version}: {page} has no source archive (.tar.gz) of it")
        data = _get(urllib.parse.urljoin(page, found[0]["url"]), _MAX_ARCHIVE)
        wanted = pin.sha256 or found[0]["hashes"]["sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SetupError(f"{page}: {one_line(str(error))}; is the package index reachable?") from error
    if _digest(data) != wanted:
        raise SetupError(f"{found[0]['url']}: got sha256 {_digest(data)}, expected {wanted}")
    return data


def _get(url: str, limit: int) -> bytes:
    if not url.startswith(("https://", "http://", "file://")):
        raise ValueError(f"{url}: expected http, https or file")
    request = urllib.request.Request(url, headers={"Accept": _FORMAT})
    with urllib.request.urlopen(request, timeout=_WAIT_S) as answer:
        data: bytes = answer.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{url}: more than {limit} bytes")
    return data


def _unpacked(path: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        with tarfile.open(fileobj=io.BytesIO(path.read_bytes()), mode="r:gz") as archive:
            for member in archive:
                name = member.name.partition("/")[2]
                if not member.isfile() or not name:
                    continue
                left -= member.size
                if left < 0 or len(files) >= MAX_FILES:
                    raise UsageError(
                        f"{path.name}: larger than {MAX_FILES} files or {MAX_BYTES >> 20} MiB; every grading would "
                        "write all of it: expected a smaller project"
                    )
                content = archive.extractfile(member)
                files[checked_path(name).as_posix()] = content.read() if content else b""
    except (tarfile.TarError, OSError, EOFError, SetupError) as error:
        raise UsageError(f"{path.name}: cannot be unpacked: {one_line(str(error))}") from error
    return files


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _normal(name: str) -> str:
    """As the index spells it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
