"""A Python that runs in any image, also one without a Python or a C library: built once, mounted read-only.

Taken from the base image, so that it needs no network: interpreter, standard library and every shared object
that they load, with the loader that fits them. Invariant: a finished folder is complete (renamed into place)
and named by the image it came from; nothing inside a sandbox can write it.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path, PurePosixPath

from lego_harness.errors import SetupError
from lego_harness.sandbox import docker_container
from lego_harness.sandbox import docker_engine as engine
from lego_harness.sandbox.base import PYTHON, Mount
from lego_harness.text import one_line

_LIMIT_S = 300.0
_PACK = """set -e
python=$(readlink -f "$(command -v python3)")
objects="$python $(ls /usr/lib/python3.*/lib-dynload/*.so)"
libraries=$(for object in $objects; do ldd "$object"; done | grep -o '/[^ )]*' | sort -u)
tar --create --dereference --file=- --exclude=__pycache__ --exclude=test --exclude=idlelib --exclude=ensurepip \\
  "$python" /usr/lib/python3.[0-9]* $libraries 2>/dev/null"""
_SCRIPT = """#!/bin/sh
exec {root}/lib/{loader} --argv0 {root}/usr/bin/{python} --library-path {root}/lib {root}/usr/bin/{python} "$@"
"""


def python_runtime(cache: Path) -> Mount:
    """The mount that brings the Python along, built at its first use; raises SetupError."""
    folder = cache / f"python-{engine.default_image().rpartition(':')[2]}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".python-", dir=cache))
        try:
            _lay_out(_packed(), scratch)
            scratch.chmod(0o755)
            if not folder.is_dir():
                scratch.rename(folder)
        except OSError as error:
            if not folder.is_dir():  # another process was not faster either
                raise SetupError(f"the mounted Python cannot be laid out in {cache}: {error}") from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return Mount(source=folder, target=PYTHON)


def _packed() -> bytes:
    labels = [f"--label={name}={value}" for name, value in docker_container.labels("runtime").items()]
    command = [
        *engine.cli(),
        "run",
        "--rm",
        "--network=none",
        *labels,
        engine.default_image(),
        "sh",
        "-c",
        _PACK,
    ]
    try:
        ended = subprocess.run(command, capture_output=True, timeout=_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"no Python can be taken from the base image: {one_line(str(error))}") from error
    if ended.returncode != 0:
        said = engine.last_line(ended.stderr)
        raise SetupError(f"no Python can be taken from {engine.default_image()}: {said}")
    return ended.stdout


def _lay_out(packed: bytes, folder: Path) -> None:
    """`usr/bin`, `usr/lib/python3.*` as they are; every shared object beside the loader in `lib`."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        for entry in (one for one in tar if one.isreg()):
            path = PurePosixPath(entry.name)
            is_python = entry.name.startswith(("usr/bin/python3", "usr/lib/python3"))
            target = folder / path if is_python else folder / "lib" / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            content = tar.extractfile(entry)
            assert content is not None
            target.write_bytes(content.read())
            target.chmod(0o755 if entry.mode & 0o111 else 0o644)
    (loader,) = folder.glob("lib/ld-linux*.so.*")
    (python,) = folder.glob("usr/bin/python3.*[0-9]")
    start = folder / "start"
    start.write_text(_SCRIPT.format(root=PYTHON, loader=loader.name, python=python.name))
    start.chmod(0o755)
