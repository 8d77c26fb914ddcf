"""What a trial is worth that the machine itself may have cut short."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from lego_harness.grading.runner import READY
from lego_harness.grading.trial import KILLED, STARVED, Job, run_trial
from lego_harness.sandbox.base import ExecResult


@dataclass
class Starving:
    """A backend whose runner begins and is killed, on a machine that may have no memory left."""

    machine_ran_out_of_memory: bool

    @asynccontextmanager
    async def open(self, spec: Any) -> AsyncIterator[Starving]:
        yield self

    async def exec(self, *_: Any, **__: Any) -> ExecResult:
        return ExecResult(
            exit_code=137,
            stdout=f"{READY}\n",
            stderr="",
            timed_out=False,
            duration_s=1.0,
            machine_ran_out_of_memory=self.machine_ran_out_of_memory,
        )


@pytest.mark.parametrize(("is_starved", "ending"), [(False, KILLED), (True, STARVED)])
async def test_a_runner_that_the_machine_may_have_killed_says_so(is_starved: bool, ending: str) -> None:
    backend: Any = Starving(is_starved)
    verdicts = await run_trial(backend, [Job(timeout_s=1.0)] * 2, {}, label="x", tests={})
    assert [verdict.ending for verdict in verdicts] == [ending] * 2
