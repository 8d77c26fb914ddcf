"""A rollout worker: one process that holds a capture proxy, a harness and a sandbox backend.

Runs as an asynchronous Ray actor; knows the engine only as `Engine`. Invariant: `run` returns a
Trajectory for every spec it is given, failed ones included. Decides nothing about training.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lego_harness.adapters.options import HarnessOptions
from lego_harness.grading.grader import Grader
from lego_harness.proxy.app import CaptureProxy
from lego_harness.proxy.patience import PatientEngine
from lego_harness.proxy.render import Renderer
from lego_harness.proxy.upstream import Engine
from lego_harness.registry import get_adapter
from lego_harness.rollout import RolloutRunner, RolloutSpec
from lego_harness.sandbox.choose import choose_backend
from lego_harness.types import FindingKind, Policy, Trajectory

_SPARES = 2
"""Containers started ahead. With two rollouts at a time on two busy cores a sandbox opened in 0.6 s (p50)
instead of 1.6 s, and ten rollouts of 2 s took 15.7 s instead of 19.9 s; bubblewrap has nothing to prepare."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerConfig:
    """What a worker needs to know; plain values, so that it can be sent to another process."""

    harness: str
    options: HarnessOptions
    sandbox: str
    model_dir: Path
    max_model_len: int
    template_options: Mapping[str, object]
    label: str
    """Run id: marks every process, folder and container this worker makes."""
    integrity: Mapping[FindingKind, Policy] = field(default_factory=dict[FindingKind, Policy])
    """What findings do to a reward, where it differs from the default."""
    scratch: Path | None = None
    """Folder for its sockets, short since they are unix addresses; the system's own by default."""


class RolloutWorker:
    """Runs rollouts until closed."""

    def __init__(self, engine: Engine, config: WorkerConfig) -> None:
        self._config = config
        self._sockets = tempfile.TemporaryDirectory(prefix="lego-", dir=config.scratch)
        renderer = Renderer.load(
            config.model_dir, max_model_len=config.max_model_len, template_options=config.template_options
        )
        self._proxy = CaptureProxy(PatientEngine(engine), renderer, socket_dir=Path(self._sockets.name))
        self._adapter = get_adapter(config.harness, config.options)
        self._backend = choose_backend(config.sandbox, warm=_SPARES)
        grader = Grader(self._backend, label=config.label)
        self._runner = RolloutRunner(
            proxy=self._proxy,
            adapter=self._adapter,
            backend=self._backend,
            grader=grader,
            label=config.label,
            integrity=config.integrity,
        )

    async def start(self) -> str:
        """Open the proxy and the harness; the sandbox backend in use. Raises SetupError."""
        await self._backend.check()
        await self._backend.reap()  # of whichever run: a worker that was killed may never come back
        await self._adapter.check()
        await self._proxy.start()
        await self._adapter.start()
        return self._backend.name

    async def run(self, spec: RolloutSpec) -> Trajectory:
        """One rollout, from sandbox to grade."""
        return await self._runner.run(spec)

    async def close(self) -> None:
        """Stop the harness and the proxy, and remove what they left."""
        await self._adapter.close()
        await self._proxy.close()
        self._sockets.cleanup()
        await self._backend.close()
        await self._backend.reap(self._config.label)
