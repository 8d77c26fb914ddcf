"""What a task folder says of its sandbox, and sandboxes made accordingly.

    task.toml [environment]     docker_image, build_timeout_sec, cpus, memory_mb, storage_mb (Harbor's); mounts,
                                setup_network (ours)
    environment/                Dockerfile, Dockerfile.fetch: an image of its own; setup.sh: run before the agent

A Dockerfile that only brings `repo/` onto a Python image asks for nothing: the workspace is filled anyway.
Invariant: agent, reference solution and grading get the same surroundings; only set-up ever has a network,
and it is proven closed before anybody else's code runs. What set-up leaves in the workspace travels with the
agent's work; what grading needs from elsewhere belongs into the image. Neither an image nor a set-up brings
git objects beside the sealed ones: the project's future could be read there. Builds nothing: backends do.
"""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lego_harness.cache import cache_folder
from lego_harness.errors import SetupError, UsageError
from lego_harness.grading.git_history import other_history, sealed_git
from lego_harness.sandbox import lazy
from lego_harness.sandbox.base import (
    BUILD,
    FETCH,
    MAX_EXPORT_BYTES,
    MAX_EXPORT_FILES,
    Limits,
    Mount,
    Phase,
    Sandbox,
    SandboxSpec,
)
from lego_harness.text import one_line
from lego_harness.types import Surroundings, Task

_SETUP = "setup.sh"
_COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")
_UNREAD = {"__pycache__", ".git"}
_NO_CLONES = """found=$(find "$HOME" /tmp -type f \\( -path '*/objects/pack/*.pack' -o -path '*/objects/[0-9a-f][0-9a-f]/*' \\)) || exit 1
printf '%s' "$found"
"""
"""Prints where git objects lie outside the workspace, which an export shows."""
_FIND_S = 60.0
_PLAIN = re.compile(
    r"FROM (python:3\.\d+\S*|\$\{?BASE\}?)|ARG BASE|WORKDIR \S+|(COPY|ADD) (\./)?repo/?\.? \S+", re.IGNORECASE
)


def _megabytes(said: Any) -> Any:
    """Harbor's older spelling, `"4G"`; whatever else is left to be refused."""
    found = re.fullmatch(r"(\d{1,9})([MGT])i?B?", said) if isinstance(said, str) else None
    return int(found[1]) * 1024 ** "MGT".index(found[2]) if found else said


_Megabytes = Annotated[int, BeforeValidator(_megabytes), Field(ge=0, le=2**30, strict=True)]


class EnvironmentTable(BaseModel):
    """[environment] of a task.toml; Harbor's keys that we do not read pass unread."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    docker_image: str | None = Field(default=None, min_length=1)
    mounts: dict[str, str] = {}
    """Path inside → packed file, relative to `environment/`."""
    setup_network: bool = False
    build_timeout_sec: float = Field(default=600.0, gt=0)
    cpus: float = Field(default=0.0, ge=0, le=1024)
    memory_mb: _Megabytes = 0
    storage_mb: _Megabytes = 0
    memory: _Megabytes = 0
    storage: _Megabytes = 0
    gpus: int = Field(default=0, ge=0)
    tpu: Any = None


def read_surroundings(folder: Path, table: EnvironmentTable) -> Surroundings:
    """What the task folder's `environment/` and its table ask for; raises UsageError."""
    place = folder / "environment"
    _refuse_unheld(place, table)
    builds = table.docker_image is None and _needs_image(place)
    if builds:
        _require_ignored_history(place)
    return Surroundings(
        image=table.docker_image,
        context=place if builds else None,
        packed=tuple(_packed(place, target, name) for target, name in sorted(table.mounts.items())),
        setup=place / _SETUP if (place / _SETUP).is_file() else None,
        setup_network=table.setup_network,
        setup_timeout_s=table.build_timeout_sec,
        cpus=table.cpus,
        memory_mb=max(table.memory_mb, table.memory),
        disk_mb=max(table.storage_mb, table.storage),
    )


async def surrounded(spec: SandboxSpec, task: Task, *, is_setup: bool = False) -> SandboxSpec:
    """The spec with the task's surroundings; raises SetupError. `is_setup`: its set-up script will run."""
    wanted = task.surroundings
    require_room(task)
    spec = replace(spec, limits=_at_least(spec.limits, wanted))
    if wanted.is_plain:
        return spec
    mounts = [await asyncio.to_thread(_mounted, file, target) for target, file in wanted.packed]
    has_network = is_setup and wanted.setup is not None and wanted.setup_network
    return replace(
        spec,
        image=wanted.image,
        context=wanted.context,
        mounts=(*spec.mounts, *mounts),
        network=has_network,
        phase=Phase.SETUP if has_network else spec.phase,
    )


async def set_up(sandbox: Sandbox, task: Task, *, then: Phase) -> dict[str, bytes] | None:
    """Run the task's set-up script and go on to a phase without network.

    What the workspace holds then, as `folder.tree_files` reads one; None where there is no script. Raises
    SetupError.
    """
    wanted = task.surroundings
    if wanted.setup is None:
        return None
    script = wanted.setup.read_bytes()
    ended = await sandbox.exec(["sh", "-s"], timeout_s=wanted.setup_timeout_s, stdin=script)
    if ended.timed_out:
        raise SetupError(f"{wanted.setup}: not done within {wanted.setup_timeout_s:g} s")
    if ended.exit_code != 0:
        said = one_line(ended.stderr or ended.stdout, limit=300, keep="end") or "nothing"
        hint = "" if wanted.setup_network else "; it has no network without environment.setup_network = true"
        raise SetupError(f"{wanted.setup}: ended with exit code {ended.exit_code} and said: {said}{hint}")
    await sandbox.enter(then)
    await _require_no_clones(sandbox, wanted.setup)
    left = _bounded(await sandbox.export(), wanted.setup)
    if path := other_history(sealed_git(task.workspace), left):
        raise _history_error(wanted.setup, path)
    return {name: content for name, content in left.items() if not _UNREAD.intersection(name.split("/"))}


async def _require_no_clones(sandbox: Sandbox, script: Path) -> None:
    looked = await sandbox.exec(["sh", "-c", _NO_CLONES], timeout_s=_FIND_S)
    if looked.exit_code != 0:
        said = one_line(looked.stderr, keep="end") or "nothing"
        raise SetupError(f"{script}: its home cannot be searched for git objects: find said: {said}")
    if found := looked.stdout:
        raise _history_error(script, one_line(found.splitlines()[0]))


def _history_error(script: Path, path: str) -> SetupError:
    return SetupError(
        f"{script}: {path} differs from the one commit that it was given, and may hold the project's future: "
        "expected no clone, fetch, commit or stash in a set-up; take them out, or remove their .git afterwards"
    )


def _bounded(left: dict[str, bytes], script: Path) -> dict[str, bytes]:
    if len(left) > MAX_EXPORT_FILES or sum(map(len, left.values())) > MAX_EXPORT_BYTES:
        raise SetupError(
            f"{script}: leaves more than {MAX_EXPORT_FILES} files or {MAX_EXPORT_BYTES} bytes in the workspace, "
            "expected less: bring them in by an image or a mount"
        )
    return left


def require_room(task: Task) -> None:
    """Raises SetupError where the task asks for more than this machine has."""
    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20
    wanted = task.surroundings
    for key, asked, there in (
        ("cpus", wanted.cpus, os.cpu_count() or 1),
        ("memory_mb", wanted.memory_mb, memory_mb),
    ):
        if asked > there:
            raise SetupError(
                f"{task.path / 'task.toml'}: environment.{key} asks for {asked:g}, this machine has {there}: run it "
                "on a larger one, lower it, or take the task out of the pool"
            )


def _at_least(limits: Limits, wanted: Surroundings) -> Limits:
    """What the harness or the grader needs, or what the task asks for, whichever is more."""
    return replace(
        limits,
        cpus=max(limits.cpus, wanted.cpus),
        memory_mb=max(limits.memory_mb, wanted.memory_mb),
        disk_mb=max(limits.disk_mb, wanted.disk_mb),
    )


def _refuse_unheld(place: Path, table: EnvironmentTable) -> None:
    """What a task cannot do without and no sandbox here has; raises UsageError."""
    compose = [name for name in _COMPOSE if (place / name).exists()]
    unheld = {
        "environment.gpus": table.gpus and "sandboxes have no GPU",
        "environment.tpu": table.tpu and "sandboxes have no TPU",
        f"environment/{''.join(compose[:1])}": compose and "a task has one container here",
    }
    for key, why in unheld.items():
        if why:
            raise UsageError(f"{place.parent}: {key}: {why}; take the task out of the pool")


def _needs_image(place: Path) -> bool:
    if (place / FETCH).is_file():
        return True
    try:
        text = (place / BUILD).read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{place / BUILD}: expected a Dockerfile in UTF-8: {error}") from error
    lines = (" ".join(line.split()) for line in text.replace("\\\n", " ").splitlines())
    return not all(_PLAIN.fullmatch(line) for line in lines if line and not line.startswith("#"))


def _require_ignored_history(place: Path) -> None:
    """The whole context goes to the builder, so that a `COPY` might show the agent the project's future."""
    stores = sorted(path.relative_to(place).as_posix() for path in place.rglob(".git"))
    lists = [place / f"{name}.dockerignore" for name in ("", BUILD, FETCH)]
    there = [path.read_text(encoding="utf-8", errors="replace").split() for path in lists if path.is_file()]
    for store in stores:
        if not there or not all({"**/.git", store} & set(lines) for lines in there):
            raise UsageError(
                f"{place / store}: the image would be built from it, and show the project's future: add the line "
                f"{store} to {place / '.dockerignore'} (a build that asks git for a version can be told one)"
            )
        if any(line.startswith("!") for lines in there for line in lines):
            raise UsageError(f"{place}: a .dockerignore with `!` may take {store} in again; write it without")


def _packed(place: Path, target: str, name: str) -> tuple[str, Path]:
    file = place / name
    if not target.startswith("/") or ".." in Path(target).parts:
        raise UsageError(
            f"{place.parent}: environment.mounts: got {target!r}, expected an absolute path inside"
        )
    if not file.is_file() or ".." in Path(name).parts or Path(name).is_absolute():
        raise UsageError(f"{file}: expected a packed file (.squashfs or .erofs) of the task, got none")
    return target, file.absolute()


def _mounted(file: Path, target: str) -> Mount:
    return lazy.mounted(file, target, cache=cache_folder())
