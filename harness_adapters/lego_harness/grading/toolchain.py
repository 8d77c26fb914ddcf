"""The packaged test runner: pytest and what it imports, copied once, mounted into every grading.

Taken from the running interpreter's own installation, so that it needs no network and is the pinned
version; pure Python, so that it serves any image with Python 3.11 or later. Invariant: a finished
folder is complete (renamed into place) and named by its content.
"""

from __future__ import annotations

import compileall
import hashlib
import py_compile
import shutil
import sys
import tempfile
from functools import cache
from importlib import metadata
from pathlib import Path

from lego_harness.cache import cache_folder
from lego_harness.errors import SetupError

PACKAGES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")


@cache
def toolchain() -> Path:
    """The folder to put on a runner's import path; built at first use. Raises SetupError."""
    files = _files()
    digest = hashlib.sha256(f"{sys.implementation.cache_tag}".encode())
    for name, path in sorted(files.items()):
        digest.update(f"{name}\0".encode() + path.read_bytes())
    folder = cache_folder() / f"toolchain-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        _build(folder, files)
    return folder


def _files() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for package in PACKAGES:
        try:
            listed = metadata.files(package) or []
        except metadata.PackageNotFoundError:
            raise SetupError(
                f"grading needs {package} beside the running Python; pip install pytest"
            ) from None
        for file in listed:
            if file.suffix == ".py" and ".." not in file.parts:
                found[file.as_posix()] = Path(str(file.locate()))
    return found


def _build(folder: Path, files: dict[str, Path]) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="toolchain-", dir=folder.parent))
    scratch.chmod(0o755)
    for name, source in files.items():
        target = scratch / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH  # read-only from here on
    compileall.compile_dir(scratch, quiet=2, invalidation_mode=unchecked)
    try:
        scratch.rename(folder)
    except OSError:  # another process was faster
        shutil.rmtree(scratch)
        if not folder.is_dir():
            raise
