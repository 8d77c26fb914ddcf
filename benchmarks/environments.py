"""Environments as tasks have them: packages of this Python, laid out as a folder and packed into one file.

They are ours, so that nothing is downloaded; the base image's Python is of the same version. Packed files are kept in
the cache, named by what is in them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sysconfig
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.containers import scratch
from lego_harness.cache import cache_folder
from lego_harness.sandbox import lazy

PLACE = "/opt/environment"
"""Where a sandbox finds it, mounted or in its image."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """Folders of our site-packages, and what is done with them."""

    name: str
    folders: tuple[str, ...]
    uses: tuple[tuple[str, str], ...]
    """One after the other: name → Python."""


_NUMPY = ("numpy", "numpy.libs")
_SYMPY = ("sympy", "mpmath", "isympy.py")
ENVIRONMENTS = (
    Environment(
        name="small",
        folders=(*_NUMPY, *_SYMPY),
        uses=(
            ("import numpy", "import numpy"),
            ("sympy factors", "import sympy; sympy.factorint(2**61 - 2)"),
        ),
    ),
    Environment(
        name="large",
        folders=(*_NUMPY, *_SYMPY, "torch", "transformers", "networkx"),
        uses=(
            ("import numpy", "import numpy"),
            ("sympy factors", "import sympy; sympy.factorint(2**61 - 2)"),
        ),
    ),
)


@contextmanager
def laid_out(environment: Environment) -> Generator[Path]:
    """A folder that holds it, by links to the files where they are on the same disk."""
    site = Path(sysconfig.get_paths()["purelib"])
    with scratch(f"environment-{environment.name}") as folder:
        for name in environment.folders:
            _link(site / name, folder / name)
        yield folder


def packed(environment: Environment, folder: Path, form: str) -> Path:
    """The file (`squashfs` or `erofs`) with what `folder` holds, made at its first use; raises SetupError."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        digest.update(f"{path.relative_to(folder)} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    file = cache_folder() / "benchmarks" / f"{environment.name}-{digest.hexdigest()[:12]}.{form}"
    if not file.is_file():
        lazy.pack(folder, file)
    return file


def _link(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, copy_function=_linked, ignore=shutil.ignore_patterns("__pycache__"))
    elif source.is_file():
        _linked(str(source), str(target))


def _linked(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # on another disk
        shutil.copy2(source, target)
    return target
