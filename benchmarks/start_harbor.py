"""Harbor's own program: so many Docker environments of one task at once, and how long each took to start.

    python start_harbor.py TASK_FOLDER IMAGE NUMBER     prints the seconds as a JSON list

Runs in an environment that has Harbor and nothing of ours. Every one is stopped before it ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Harbor lies in an environment of its own, in which alone this program runs.
from harbor.environments.docker.docker import DockerEnvironment  # pyright: ignore[reportMissingImports]
from harbor.models.task.config import EnvironmentConfig  # pyright: ignore[reportMissingImports]
from harbor.models.trial.paths import TrialPaths  # pyright: ignore[reportMissingImports]


def made(task: Path, image: str, trial: Path) -> Any:
    """An environment as a trial makes it."""
    return DockerEnvironment(
        environment_dir=task,
        environment_name="benchmark",
        session_id=f"benchmark-{trial.name}",
        trial_paths=TrialPaths(trial_dir=trial),
        task_env_config=EnvironmentConfig(docker_image=image),
    )


async def started_s(environment: Any) -> float:
    """Seconds of its start."""
    started = time.perf_counter()
    await environment.start(force_build=False)
    return time.perf_counter() - started


async def main(task: Path, image: str, number: int) -> list[float]:
    """All at once; none is stopped before all have started."""
    with tempfile.TemporaryDirectory() as trials:
        environments = [made(task, image, Path(trials, str(which))) for which in range(number)]
        try:
            return await asyncio.gather(*map(started_s, environments))
        finally:
            await asyncio.gather(*(one.stop(delete=False) for one in environments), return_exceptions=True)


if __name__ == "__main__":
    took = asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
    sys.stdout.write(json.dumps(took) + "\n")
