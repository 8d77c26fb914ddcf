"""An operator's session on the quickstart, through MCP alone, up to a run that the watchdog stops.

    python -m benchmarks.operator_session FOLDER             the quickstart's sizes: an hour on two cores
    python -m benchmarks.operator_session FOLDER --small     18 rollouts a step, to see how it goes
    … --check                                                exit 1 where the run was not stopped in time

    validate ─▶ start ─▶ watch ─▶ read a failed rollout ─▶ arm the watchdog ─▶ stop behind step 14
             ─▶ resume with a thousand times the learning rate, from step 15 on ─▶ watch it collapse and be stopped

What a coding agent does with these tools is written down here as a program; the person who is asked to type a run's name
before anything changes is one, too. The collapse is planted as a person would cause it: by a wrong learning rate in a
resume. In time is within 10 steps of the onset by an invariant and within 18 by the drop rule.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from mcp.client import Client, ClientRequestContext
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitRequestParams, ElicitResult, TextResourceContents

import lego_core
from lego_core.health.drop import onset

RECIPE = Path(lego_core.__file__).parents[1] / "recipes" / "quickstart.toml"
FULL = ("train.steps=48",)
SMALL = (
    "train.steps=24",
    "rollout.groups_per_step=3",
    "rollout.group_size=6",
    "rollout.max_seconds=600",
    "tasks.num_train=12",
    "tasks.num_heldout=8",
    "eval.num_tasks=8",
)
FACTOR = 1000.0
INVARIANT_STEPS, DROP_STEPS = 10, 18
LOOK_EVERY_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """What became of it."""

    run: str
    planted: int
    """First step that was trained with the wrong learning rate."""
    onset: int | None
    """First of three steps below a tenth of the peak; None where there is none."""
    stopped: int | None
    """Step behind which the watchdog stopped it."""
    signals: tuple[str, ...]
    """What stopped it, `layer metric/detector`."""
    rewards: tuple[float, ...]
    minutes: float

    @property
    def is_in_time(self) -> bool:
        if self.onset is None or self.stopped is None or not self.signals:
            return False
        is_invariant = any(signal.startswith("invariant") for signal in self.signals)
        return self.stopped - self.onset <= (INVARIANT_STEPS if is_invariant else DROP_STEPS)


class Operator:
    """A client and the person behind it, who types what they were told to expect and declines everything else."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._client: Client | None = None
        self._expected = ""

    @asynccontextmanager
    async def connected(self, folder: Path) -> AsyncGenerator[Operator]:
        """With a server of its own over `folder`, where recipes lie and runs will."""
        program = StdioServerParameters(
            command=sys.executable,
            args=["-m", "lego_control", "mcp", "--allow-control"],
            env=dict(os.environ),
            cwd=folder,
        )
        async with Client(stdio_client(program), elicitation_callback=self._person) as self._client:
            yield self

    async def _person(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self._say(f"  the person is asked: {params.message}")
        if not self._expected:
            return ElicitResult(action="decline")
        return ElicitResult(action="accept", content={"run_name": self._expected})

    async def call(self, tool: str, *, types: str = "", **arguments: Any) -> dict[str, Any]:
        """A tool's answer; the person types `types` where they are asked. Raises RuntimeError where it is a failure."""
        assert self._client is not None
        self._expected = types
        answer = await self._client.call_tool(tool, arguments)
        if answer.is_error or answer.structured_content is None:
            raise RuntimeError(f"{tool}: {answer.content}")
        return answer.structured_content

    async def read(self, uri: str) -> Any:
        """A resource of JSON."""
        assert self._client is not None
        (content,) = (await self._client.read_resource(uri)).contents
        assert isinstance(content, TextResourceContents)
        return json.loads(content.text)

    async def watch(self, run: str, is_enough: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Look at a run again and again until it is enough, telling each step once; the last status."""
        told = -1
        while True:
            status = await self.call("run_status", run=run)
            if status["step"] != told:
                told = status["step"]
                reward = status["signals"]["reward_mean"]
                self._say(f"  step {told}: {status['state']}, {status['verdict']}, reward {reward}")
            if is_enough(status):
                return status
            await asyncio.sleep(LOOK_EVERY_S)


async def session(
    folder: Path, overrides: Sequence[str], *, behind: int, say: Callable[[str], None]
) -> Session:
    """All of it; the learning rate is wrong from the step behind `behind` on."""
    began = time.monotonic()
    shutil.copy(RECIPE, folder / "quickstart.toml")
    async with Operator(say).connected(folder) as operator:
        await _validate(operator, say)
        say("start")
        run = await _start(operator, overrides)
        try:
            planted = await _until_it_is_wrong(operator, run, behind, say)
            say("watch it, without touching it")
            await operator.watch(run, _has_ended)
            return await _look_back(operator, run, planted, (time.monotonic() - began) / 60)
        finally:
            await _leave_nothing_running(operator, run)


async def _validate(operator: Operator, say: Callable[[str], None]) -> None:
    say("validate the recipe before it is run")
    job = await operator.call("validation_start", recipe="quickstart.toml", key="session")
    while job["state"] == "running":
        await asyncio.sleep(LOOK_EVERY_S)
        job = await operator.call("job_get", job=job["job"])
    counts = [check["status"] for check in job["checks"]]
    say(
        f"  {job['state']} in {job['seconds']:.0f} s: {counts.count('passed')} of {len(counts)} checks passed"
    )
    if job["state"] != "passed":
        raise RuntimeError(
            f"the recipe does not hold: {[c for c in job['checks'] if c['status'] != 'passed']}"
        )


async def _start(operator: Operator, overrides: Sequence[str]) -> str:
    started = await operator.call(
        "run_start",
        recipe="quickstart.toml",
        overrides=list(overrides),
        reason="to see whether it learns",
        types="quickstart",
    )
    return started["run"]


async def _until_it_is_wrong(operator: Operator, run: str, behind: int, say: Callable[[str], None]) -> int:
    """From the start to the resume with the wrong learning rate; the first step of that."""
    say("watch it learn")
    await operator.watch(run, lambda status: status["step"] >= min(3, behind - 1) or _has_ended(status))
    say("read a rollout that failed")
    await _read_a_failure(operator, run, say)
    say("have the watchdog stop what collapses; until now it would only have told")
    policy = await operator.call(
        "watch_set", run=run, action="stop", reason="nobody is there at night", types=run
    )
    say(f"  action {policy['action']}; it would have stopped this run at: {policy['would_stop_at']}")
    await operator.watch(run, lambda status: status["step"] >= behind - 1 or _has_ended(status))
    say("stop it behind its step, to change the learning rate")
    await operator.call("run_stop", run=run, reason="to change the learning rate", types=run)
    status = await operator.watch(run, _has_ended)
    rate = (await operator.read(f"lego://runs/{run}/config"))["train"]["learning_rate"]
    say(f"resume with {FACTOR:g} times the learning rate, {rate * FACTOR:g}, by mistake")
    changes = [f"train.learning_rate={rate * FACTOR!r}"]
    await operator.call("run_resume", run=run, overrides=changes, reason="it learns too slowly", types=run)
    return status["step"] + 1


async def _read_a_failure(operator: Operator, run: str, say: Callable[[str], None]) -> None:
    found = await operator.call("trajectories_search", run=run, max_reward=0.0, sort="worst", limit=1)
    if not found["rows"]:
        say("  none has failed so far")
        return
    row = found["rows"][0]
    rollout = await operator.call("trajectory_read", run=run, handle=row["handle"], view="messages")
    say(
        f"  {row['handle']}, task {row['task']}: {row['stop_reason']}, reward {row['reward']}; its last words, fenced:"
    )
    say("\n".join(f"    {line}" for line in rollout["messages"][-1]["text"].splitlines()[:6]))


async def _look_back(operator: Operator, run: str, planted: int, minutes: float) -> Session:
    told = await operator.call("run_diagnose", run=run)
    series = await operator.call("metrics_query", run=run, keys=["reward_mean"], max_points=1000)
    rewards = [float("nan") if v is None else float(v) for v in series["values"]["reward_mean"]]
    began = onset(np.array(rewards))
    return Session(
        run=run,
        planted=planted,
        onset=None if began is None else series["steps"][began],
        stopped=told["as_of_step"] if told["verdict"] == "collapsed" else None,
        signals=tuple(
            f"{s['layer']} {s['metric']}/{s['detector']}" for s in told["signals"] if s["layer"] != "warning"
        ),
        rewards=tuple(rewards),
        minutes=minutes,
    )


async def _leave_nothing_running(operator: Operator, run: str) -> None:
    status = await operator.call("run_status", run=run)
    if not _has_ended(status):
        await operator.call("run_stop", run=run, mode="now", reason="the session is over", types=run)
        await operator.watch(run, _has_ended)


def _has_ended(status: dict[str, Any]) -> bool:
    return status["state"] in ("finished", "failed", "interrupted")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path, help="Where recipe and run are put.")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args(argv)
    asked.folder.mkdir(parents=True, exist_ok=True)
    overrides, behind = (SMALL, 7) if asked.small else (FULL, 14)

    def say(text: str) -> None:
        sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
        sys.stdout.flush()

    done = asyncio.run(session(asked.folder, overrides, behind=behind, say=say))
    say(f"rewards: {' '.join(f'{reward:.2f}' for reward in done.rewards)}")
    say(
        f"{done.run}: wrong from step {done.planted} on, collapsed at {done.onset}, stopped behind {done.stopped} by"
    )
    say(f"{', '.join(done.signals) or 'nothing'}; {done.minutes:.0f} minutes; in time: {done.is_in_time}")
    return 1 if asked.check and not done.is_in_time else 0


if __name__ == "__main__":
    sys.exit(main())
