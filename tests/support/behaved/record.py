"""Rollouts of real harnesses under scripted agents, kept as small as a reader needs them.

    python -m tests.support.behaved.record HARNESS FILE.jsonl.gz [SET]

One line each: what the agent said and called, what came back, how it ended. System prompts are left out, long
texts lose their middle. The order of the scripts is drawn, so that a name says nothing.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import platform
import random
import sys
import sysconfig
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any

from lego_harness.adapters.install import CLAUDE_CODE, CODEX, MINI_SWE, OPENCODE, OPENHANDS, install
from lego_harness.adapters.options import HarnessOptions
from lego_harness.rollout import RolloutSpec
from lego_harness.sandbox.base import Mount
from lego_harness.types import Budget, GenerateRequest, Generation, Grade, Sampling, Task, Trajectory
from lego_tui.behaviours.messages import text_of
from tests.support.behaved.habits import HABITS, calls_in_foreign_words
from tests.support.behaved.kit import Kit
from tests.support.behaved.projects import MORE_PROJECTS, PROJECTS, Project
from tests.support.behaved.scripts import ERRAND, REPORT, SCRIPTS, Script
from tests.support.real_rollout import Worker, open_worker
from tests.support.scripted_engine import ScriptedEngine

BESIDE = 4
"""Rollouts at a time."""
KEPT = 700
"""Characters of a text, at each end."""
_PINNED = {x.name: x for x in (MINI_SWE, CLAUDE_CODE, OPENCODE, CODEX, OPENHANDS)}
_PYTEST = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments")


@dataclass(frozen=True, kw_only=True, slots=True)
class Cast:
    """What one set of trajectories is made of."""

    seed: int
    scripts: tuple[Callable[[Kit], Script], ...]
    projects: tuple[Project, ...]
    num_before: int
    """Where its names begin to count."""


CASTS = {
    "first": Cast(seed=20, scripts=SCRIPTS, projects=PROJECTS, num_before=0),
    "second": Cast(seed=4711, scripts=HABITS, projects=MORE_PROJECTS, num_before=20),
    "words": Cast(seed=4711, scripts=(calls_in_foreign_words,) * 2, projects=MORE_PROJECTS, num_before=36),
}


def kept(trajectory: Trajectory, name: str, instruction: str) -> dict[str, Any]:
    """What a reader sees of it."""
    grade = trajectory.grade
    return {
        "id": name,
        "harness": trajectory.harness,
        "task": instruction,
        "stop_reason": str(trajectory.stop_reason),
        "reward": None if grade is None else grade.reward,
        "messages": [_kept(m, (instruction, ERRAND)) for m in trajectory.messages if not _is_setting(m)],
    }


def _is_setting(message: dict[str, Any]) -> bool:
    """What a harness says of itself and of the machine."""
    said = text_of(message.get("content"))
    return message["role"] in ("system", "developer") or said.startswith("<environment_context>")


def _kept(message: dict[str, Any], errands: Sequence[str]) -> dict[str, Any]:
    """A prompt is kept as the errand that it holds."""
    shown = {key: value for key, value in message.items() if value not in ("", None, [])}
    if message["role"] == "user":
        text = text_of(message["content"])
        shown["content"] = next((errand for errand in errands if errand in text), text)
    if message["role"] == "tool" and REPORT in str(message["content"]):
        shown["content"] = REPORT  # without what the harness tells its agent about sub-agents
    if isinstance(shown.get("content"), str):
        text = shown["content"].replace(sys.base_prefix, "/usr").replace(platform.release(), "6.1.0")
        cut = f"{text[:KEPT]}\n[… {len(text) - 2 * KEPT} characters …]\n{text[-KEPT:]}"
        shown["content"] = text if len(text) <= 2 * KEPT + 40 else cut
    return shown


@asynccontextmanager
async def _worker(folder: Path, harness: str, engine: _Scripted) -> AsyncIterator[Worker]:
    """A worker whose sandboxes have pytest."""
    install(_PINNED[harness])
    options = HarnessOptions(subagents=harness != "mini-swe-agent")
    async with open_worker(folder, harness, "bubblewrap", options) as worker:
        packages, mounts = _packages(folder / "packages"), worker.adapter.mounts()
        worker.engine([])
        worker._engine.generate = engine.generate  # one for each rollout, not one for all
        worker.runner._grader = _Compared()
        worker.adapter.mounts = lambda: (*mounts, packages)
        yield worker


class _Compared:
    """In place of the grader, which costs more than all the rest: solved is what says what the repair says."""

    async def grade(self, task: Task, exported: Mapping[str, bytes], *, before: Mapping[str, bytes]) -> Grade:
        del before
        (project,) = (p for p in (*PROJECTS, *MORE_PROJECTS) if p.package == task.id)
        got = exported.get(project.module, b"").decode()
        return Grade(reward=float(got.split() == project.repaired.split()), tests={}, duration_s=0.0)


def _packages(folder: Path) -> Mount:
    own = Path(sysconfig.get_path("purelib"))
    for name in _PYTEST:
        copytree(own / name, folder / name)
    (folder / "py.py").write_bytes((own / "py.py").read_bytes())
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return Mount(source=folder, target=f"{sys.base_prefix}/lib/{version}/site-packages")


class _Scripted:
    """One engine for the proxy, a scripted one for each rollout."""

    def __init__(self) -> None:
        self.engines: dict[str, ScriptedEngine] = {}

    async def generate(self, request: GenerateRequest) -> Generation:
        return await self.engines[request.request_id.partition(".a")[0]].generate(request)


async def record(harness: str, folder: Path, cast: Cast) -> AsyncIterator[dict[str, Any]]:
    """Each script once, over projects in turn; as they end."""
    num_scripts, projects = len(cast.scripts), cast.projects
    numbers = random.Random(f"{cast.seed}/{harness}").sample(range(num_scripts), num_scripts)
    tasks = [project.write(folder / "tasks" / project.package) for project in projects]
    beside = asyncio.Semaphore(BESIDE)
    scripted = _Scripted()

    async def one(worker: Worker, place: int, number: int) -> dict[str, Any]:
        name = f"{harness}-{place:02d}"
        which = (number + len(harness)) % len(projects)
        kit = Kit(harness, projects[which], f"{cast.seed}/{name}")
        script = cast.scripts[number](kit)
        steps = [worker.by_text(script)] * 12 if callable(script) else script
        scripted.engines[name] = ScriptedEngine(worker.renderer, steps)
        async with beside:
            trajectory = await worker.runner.run(_spec(name, tasks[which]))
        return kept(trajectory, name, projects[which].instruction)

    async with _worker(folder, harness, scripted) as worker:
        places = enumerate(numbers, cast.num_before + 1)
        for ended in asyncio.as_completed([one(worker, *x) for x in places]):
            yield await ended


def _spec(name: str, task: Task) -> RolloutSpec:
    budget = Budget(max_turns=10, max_tokens=100_000, max_seconds=900.0)
    return RolloutSpec(id=name, task=task, epoch=0, sampling=Sampling(max_tokens=4096, seed=1), budget=budget)


async def _write(harness: str, out: Path, cast: Cast) -> None:
    lines: list[dict[str, Any]] = []
    with TemporaryDirectory() as folder:
        async for line in record(harness, Path(folder), cast):
            lines.append(line)
            sys.stderr.write(f"{line['id']}: {line['stop_reason']}, {line['reward']}\n")
    text = "".join(
        json.dumps(line, ensure_ascii=False) + "\n" for line in sorted(lines, key=lambda x: x["id"])
    )
    out.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    asyncio.run(_write(sys.argv[1], Path(sys.argv[2]), CASTS[sys.argv[3] if sys.argv[3:] else "first"]))
