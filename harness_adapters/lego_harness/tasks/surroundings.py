"""What a task folder says about its sandbox, and sandboxes made accordingly.

    task.toml [environment]     docker_image, build_timeout_sec, cpus, memory_mb, storage_mb (Harbor's); mounts,
                                setup_network (ours)
    environment/                Dockerfile, Dockerfile.fetch: an image of its own; setup.sh: run before the agent

Invariant: agent, reference solution and grading get the same surroundings; only set-up ever has a network. What
set-up leaves in the workspace is kept with the agent's work (`set_up.py`); anything else that grading needs belongs
into the image. Builds nothing: backends do.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from lego_harness.cache import cache_folder
from lego_harness.errors import SetupError, UsageError
from lego_harness.sandbox import lazy
from lego_harness.sandbox.base import Limits, Mount, Phase, SandboxSpec
from lego_harness.tasks.build_context import needs_image, require_ignored_history
from lego_harness.types import Surroundings, Task

_SETUP = "setup.sh"
_COMPOSE = ("docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml")


def _megabytes(said: Any) -> Any:
    """Harbor's older spelling, `"4G"`, in whole megabytes; a number is left as it is."""
    if not isinstance(said, str):
        return said
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,6})?)([MGT])i?B?", said.strip(), re.IGNORECASE)
    if found is None:
        raise ValueError(
            'expected a number with its unit, as in "4G" or "512M", or megabytes as a bare number'
        )
    return math.ceil(float(found[1]) * 1024 ** "MGT".index(found[2].upper()))


def _no_variables(said: dict[str, Any]) -> dict[str, Any]:
    if said:
        raise ValueError(
            "sandboxes are given no variables but their image's own: write ENV into environment/Dockerfile, or take the "
            "task out of the pool"
        )
    return said


NoVariables = Annotated[dict[str, Any], AfterValidator(_no_variables)]
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
    env: NoVariables = {}


def read_surroundings(folder: Path, table: EnvironmentTable) -> Surroundings:
    """What the task folder's `environment/` and the `[environment]` table ask for; raises UsageError."""
    place = folder / "environment"
    _refuse_unheld(place, table)
    builds = table.docker_image is None and needs_image(place)
    if builds:
        require_ignored_history(place)
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
    """The spec with the task's surroundings; raises SetupError. `is_setup`: the set-up script will run."""
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


def require_room(task: Task) -> None:
    """Raises SetupError if the task asks for more than this machine has."""
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
    """Raises UsageError if the task cannot do without something that no sandbox here has."""
    compose = [name for name in _COMPOSE if (place / name).exists()]
    unheld = {
        "environment.gpus": table.gpus and "sandboxes have no GPU",
        "environment.tpu": table.tpu and "sandboxes have no TPU",
        f"environment/{''.join(compose[:1])}": compose and "a task has one container here",
    }
    for key, why in unheld.items():
        if why:
            raise UsageError(f"{place.parent}: {key}: {why}; take the task out of the pool")


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
