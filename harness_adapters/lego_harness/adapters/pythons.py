"""Finds a Python for harnesses that need a newer one than ours.

Looks at $LEGO_PYTHON312, the running interpreter, PATH, beside our own and in pyenv, in this order; each is proven
by starting it, since a name on PATH may be a shim that leads nowhere. Installs nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from lego_harness.errors import SetupError

_CHOICE = "LEGO_PYTHON312"
_NAMES = ("python3.12", "python3.13", "python3.14", "python3")
_PROOF = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 12))"


def python312() -> str:
    """An interpreter of Python 3.12 or newer that can make a venv; raises SetupError."""
    if chosen := os.environ.get(_CHOICE):
        if _works(chosen):
            return chosen
        raise SetupError(f"{_CHOICE}={chosen}: expected Python 3.12 or newer with venv; set another one")
    for candidate in _candidates():
        if _works(candidate):
            return candidate
    raise SetupError(
        "no Python 3.12 or newer with venv on PATH or under pyenv; install one (Debian 13 and newer: apt-get "
        f"install python3-venv; elsewhere: pyenv install 3.12) or set {_CHOICE} to one"
    )


def _candidates() -> Iterator[str]:
    yield sys.executable
    yield from _NAMES
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for versions in (Path(sys.base_prefix).parent, pyenv):
        yield from (str(path) for path in sorted(versions.glob("3.1[2-4].*/bin/python")))


def _works(python: str) -> bool:
    try:
        proof = subprocess.run([python, "-c", _PROOF], capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return proof.returncode == 0
