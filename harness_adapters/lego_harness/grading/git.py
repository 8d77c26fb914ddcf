"""git as a program on this machine: one bounded call at a time, cut off from every setting of the machine's.

Invariant: git runs over git folders of ours only, made by `init` or by `git_view.py`; it finds no system's, user's
or foreign configuration, and no protocol to fetch with. Knows nothing of what it is asked.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from lego_harness.errors import SetupError

_ENV = {
    "PATH": os.defpath,
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "lego",
    "GIT_AUTHOR_EMAIL": "lego@localhost",
    "GIT_COMMITTER_NAME": "lego",
    "GIT_COMMITTER_EMAIL": "lego@localhost",
}
_SAFE = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*")
_TIMEOUT_S = 300


def run_git(git: Path, arguments: list[str], stdin: bytes, env: Mapping[str, str] | None = None) -> bytes:
    """What git prints on a git folder of ours, beside which it starts; raises SetupError with its last word."""
    command = ["git", *_SAFE, "--git-dir", str(git.absolute()), *arguments]
    try:
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            timeout=_TIMEOUT_S,
            env={**_ENV, **(env or {})},
            cwd=git.parent,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"git {arguments[0]}: {error}") from error
    if done.returncode != 0:
        said = (done.stderr.decode("utf-8", "replace").strip().splitlines() or ["nothing"])[-1]
        raise SetupError(f"git {arguments[0]} ended with {done.returncode}: {said}")
    return done.stdout


def git_text(git: Path, *arguments: str) -> str:
    """The same in text, without input."""
    return run_git(git, list(arguments), b"").decode("utf-8", "replace")
