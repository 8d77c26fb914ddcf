"""No git objects besides the sealed ones: neither a task's image, its mounts nor its set-up may bring the future back.

    image, mounts ─┐
    set-up's HOME, /tmp, /dev/shm ─┴─ find_git.py, inside ─▶ none, or SetupError
    set-up's workspace ─ export ─▶ as it was given, or SetupError

Invariants: every place an agent can read is searched before it starts, whether there is a set-up or not; what the
workspace holds as plain files (a project's fixtures) is part of the task and may be anywhere. An image that was
found clean is remembered by its digest; of its sandboxes only what a set-up could write is searched again. Only names
are looked at, nothing is executed.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from lego_harness.cache import cache_folder
from lego_harness.errors import SetupError
from lego_harness.grading.git_history import STORED, other_history
from lego_harness.sandbox.base import PYTHON, Sandbox
from lego_harness.tasks import find_git
from lego_harness.text import one_line
from lego_harness.types import Surroundings, Task

_FIND_S = 300.0
_WRITABLE = ("~", "/tmp", "/dev/shm")
_IN_MEMORY = ("/tmp/", "/home/agent/", "/dev/")
"""Where no image of a sandbox shows anything: it is a set-up's."""


async def require_no_clones(sandbox: Sandbox, task: Task, given: Mapping[str, bytes]) -> None:
    """Search what the task brought besides its workspace, which holds `given`; raises SetupError."""
    wanted = task.surroundings
    roots = _roots(wanted)
    clean = _memory(sandbox, wanted) if roots and (_has_image(wanted) or wanted.setup is None) else None
    if clean and clean.is_file():
        roots = [find_git.WRITABLE] if wanted.setup else []
    if not roots:
        return
    python = f"{PYTHON}/start" if _has_image(wanted) else "python3"
    argv = [python, "-I", "-S", "-", STORED.pattern, *roots]
    looked = await sandbox.exec(argv, timeout_s=_FIND_S, cwd="/", stdin=_program())
    if looked.exit_code != 0 or looked.timed_out:
        said = one_line(looked.stderr, keep="end") or "nothing"
        raise SetupError(f"{_source(wanted)}: cannot be searched for git objects: the search said: {said}")
    fixtures = {_object(path) for path in given if STORED.search(path) and not path.startswith(".git/")}
    if found := [path for path in looked.stdout.splitlines() if _object(path) not in fixtures]:
        raise SetupError(
            f"{_source(wanted)}: brings {one_line(found[0])}, which may hold the project's future: expected no git "
            f"objects; {_remedy(wanted, found)}"
        )
    if clean and not looked.stdout:
        clean.parent.mkdir(parents=True, exist_ok=True)
        clean.touch()


def require_same_history(script: Path, given: Mapping[str, bytes], left: Mapping[str, bytes]) -> None:
    """Raises SetupError if a set-up left objects in the workspace that it was not given."""
    if path := other_history(given, left):
        raise SetupError(
            f"{script}: {one_line(path)} differs from what it was given, and may hold the project's future: expected no "
            "clone, fetch, commit or stash in a set-up; take them out, or remove their .git afterwards"
        )


def _roots(wanted: Surroundings) -> list[str]:
    if _has_image(wanted):
        return ["/", find_git.WRITABLE, *(target for target, _ in wanted.packed)]
    return [*(_WRITABLE if wanted.setup else ()), *(target for target, _ in wanted.packed)]


def _has_image(wanted: Surroundings) -> bool:
    return wanted.image is not None or wanted.context is not None


def _source(wanted: Surroundings) -> str:
    packed = ", ".join(str(file) for _, file in wanted.packed)
    parts = (wanted.image or wanted.context, packed, wanted.setup)
    return " or ".join(str(part) for part in parts if part)


def _remedy(wanted: Surroundings, found: Sequence[str]) -> str:
    """What to write where, for all that was found, as far as that fits on a line."""
    others = (*_IN_MEMORY, *(target for target, _ in wanted.packed))
    if not _has_image(wanted) or any(path.startswith(others) for path in found):
        return "take the clone out, or remove its .git"
    remove = f"RUN rm -rf {one_line(shlex.join(sorted(set(map(_store, found)))))}"
    if wanted.image is None:
        return f"end environment/Dockerfile with the line {remove}"
    return (
        f"write an environment/Dockerfile in place of docker_image, with the lines FROM {wanted.image}, USER root and "
        f"{remove} (if the project is installed there in place, see tasks/checkout.py)"
    )


def _store(path: str) -> str:
    """The folder whose removal takes an object with it and no file of a project: of a clone its `.git`."""
    inside = re.match(r".*?/\.(git|hg|svn|bzr)(?=/)", path)
    return inside[0] if inside else f"{path.partition('/objects/')[0]}/objects"


def _object(path: str) -> str:
    """What git calls it: `ab/cdef…`, `pack/pack-….pack`."""
    return path.rpartition("objects/")[2]


def _program() -> bytes:
    return Path(find_git.__file__).read_bytes()


def _memory(sandbox: Sandbox, wanted: Surroundings) -> Path:
    packed = [(target, file.stat().st_size, file.stat().st_mtime_ns) for target, file in wanted.packed]
    about = repr((_program(), STORED.pattern, sandbox.image, packed))
    return cache_folder() / "searched" / hashlib.sha256(about.encode()).hexdigest()[:32]
