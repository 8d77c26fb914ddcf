"""A Python for harnesses that need a newer one than ours.

Looks at $LEGO_PYTHON312, the running interpreter, PATH and pyenv's versions, in this order. Each one is started to
prove it, because a name on PATH may be a shim that leads nowhere. If there is none, Debian 13's own can be unpacked
next to the harnesses: it runs on its own C library, without root and without a chroot.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from lego_harness.errors import SetupError
from lego_harness.text import one_line

_CHOICE = "LEGO_PYTHON312"
_NAMES = ("python3.12", "python3.13", "python3.14", "python3")
_PROOF = "import sys, venv; sys.exit(sys.version_info < (3, 12))"
_PACKAGES = "python3-venv,libstdc++6,libgcc-s1,zlib1g"
_UNPACK_LIMIT_S = 1800
UNPACKED = Path("usr", "bin", "python-here")
"""Path below the folder that a Python was unpacked into."""
_SCRIPT = """#!/bin/sh
exec "{loader}" --argv0 "$0" --library-path "{libraries}" "{python}" "$@"
"""


def find_python312() -> str | None:
    """An interpreter of Python 3.12 or newer; raises SetupError if the chosen one is not."""
    if chosen := os.environ.get(_CHOICE):
        if _works(chosen):
            return chosen
        raise SetupError(f"{_CHOICE}={chosen}: expected Python 3.12 or newer with venv; set another one")
    return next((candidate for candidate in _candidates() if _works(candidate)), None)


def unpack_python(folder: Path, final: Path) -> None:
    """Unpack Debian 13's Python into `folder`, which will then become `final`; raises SetupError."""
    if shutil.which("mmdebstrap") is None:
        raise SetupError(
            "no Python 3.12 or newer on PATH or under pyenv; install one (Debian 13 and newer: apt-get install "
            f"python3-venv; Debian 12: apt-get install mmdebstrap, and it is unpacked), or set {_CHOICE} to one"
        )
    unpack = ["mmdebstrap", "--quiet", "--variant=extract", f"--include={_PACKAGES}", "trixie", str(folder)]
    try:
        ended = subprocess.run(unpack, capture_output=True, text=True, timeout=_UNPACK_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"Debian's Python cannot be unpacked: {one_line(str(error))}") from error
    if ended.returncode != 0:
        said = one_line(ended.stderr, keep="end")
        raise SetupError(
            f"Debian's Python cannot be unpacked: mmdebstrap exited with {ended.returncode}: {said}"
        )
    _write_script(folder, final)


def _candidates() -> Iterator[str]:
    yield sys.executable
    yield from _NAMES
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from (str(path) for path in sorted(pyenv.glob("versions/3.1[2-4].*/bin/python")))


def _works(python: str) -> bool:
    try:
        proof = subprocess.run([python, "-c", _PROOF], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return proof.returncode == 0


def _write_script(folder: Path, final: Path) -> None:
    """Start it by its own loader: the host's C library may be older than it needs."""
    (loader,) = folder.glob("usr/lib/*/ld-linux-*.so.*")
    (python,) = folder.glob("usr/bin/python3.*[0-9]")
    places = {"loader": loader, "libraries": loader.parent, "python": python}
    text = _SCRIPT.format_map({name: final / place.relative_to(folder) for name, place in places.items()})
    (folder / UNPACKED).write_text(text)
    (folder / UNPACKED).chmod(0o755)
