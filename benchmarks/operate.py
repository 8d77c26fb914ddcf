"""What an operator waits for: a run of 5,000 steps, 320,000 rollouts and 2.5 million turns, looked at from outside.

    python -m benchmarks.operate          as Markdown
    python -m benchmarks.operate --check  exit 1 where an aim is missed

Each figure is the least of several, each cold one in a process of its own.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lego_control.runs import Runs

NUM_STEPS, ROLLOUTS, TURNS = 5_000, 64, 8
REPEATS = 3
AIMS = {
    "run_status, warm, a step later": 0.1,
    "run_status, cold (a new process, no index)": 1.0,
    "metrics_query": 0.05,
    "server start until it answers": 0.5,
}


def write_run(folder: Path, num_steps: int = NUM_STEPS) -> str:
    """The files that such a run has, without its trajectories; its name."""
    from lego_core.store import RunWriter
    from lego_core.store.json_records import encode
    from tests.support.runs import recipe, step

    with RunWriter.create(folder, recipe(train={"steps": 2 * num_steps})) as writer:
        root = writer.layout.root
    draw = random.Random(0)
    with (root / "steps.jsonl").open("wb") as steps, (root / "events.jsonl").open("ab") as events:
        for number in range(1, num_steps + 1):
            ids = tuple(f"s{number:05d}.g{i // 8:02d}.r{i % 8}" for i in range(ROLLOUTS))
            steps.write(encode(step(number, reward_mean=draw.random(), trained_rollouts=ids)) + b"\n")
            for stage in ("rollout", "train", "checkpoint", "sync"):
                events.write(
                    _line({"time": 1e9 + number, "kind": "stage", "fields": {"stage": stage, "step": number}})
                )
            events.write(
                _line({"time": 1e9 + number, "kind": "checkpoint", "fields": {"step": number, "path": "x"}})
            )
    with (root / "trajectories" / "index.jsonl").open("wb") as index:
        for place in range(num_steps * ROLLOUTS):
            index.write(_line(_entry(place, draw)))
    return root.name


def _entry(place: int, draw: random.Random) -> dict[str, Any]:
    number, i = divmod(place, ROLLOUTS)
    return {
        "id": f"s{number + 1:05d}.g{i // 8:02d}.r{i % 8}",
        "file": "00001.zst",
        "offset": 900 * place,
        "length": 900,
        "step": number + 1,
        "task": f"ops-{draw.randrange(512):04d}",
        "stop_reason": "completed",
        "reward": float(draw.random() < 0.5),
        "sampled": draw.randrange(50 * TURNS),
    }


def _line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def measure(num_steps: int = NUM_STEPS) -> dict[str, float]:
    """Seconds by what was waited for, and rows per second of building the index."""
    with tempfile.TemporaryDirectory(prefix="lego-operate-") as scratch:
        run = write_run(Path(scratch) / "runs", num_steps)
        cold = [_cold(Path(scratch), run, str(number)) for number in range(REPEATS)]
        found = {name: min(times[name] for times in cold) for name in cold[0]}
        found["server start until it answers"] = min(_start(Path(scratch) / "runs") for _ in range(REPEATS))
        found["index rows per second"] = num_steps * ROLLOUTS / found.pop("index")
    return found


def _cold(scratch: Path, run: str, number: str) -> dict[str, float]:
    code = f"from benchmarks.operate import ask; ask({str(scratch / 'runs')!r}, {run!r})"
    (scratch / number).mkdir()
    env = {**os.environ, "LEGO_INDEX": str(scratch / number)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    return json.loads(done.stdout)


def ask(folder: str, run: str) -> None:
    """In a process of its own: ask cold, warm, and for the rest; tell the seconds as JSON."""
    import lego_control.server  # noqa: F401  what a server has imported before it is asked

    cold = _timed(lambda: _status(Path(folder), run))
    from lego_control.runs import Runs
    from lego_control.tools.metrics import metrics_query

    runs = Runs(Path(folder))
    times = {
        "run_status, cold (a new process, no index)": cold,
        "run_status, warm, a step later": min(_a_step_later(runs, run) for _ in range(5)),
        "metrics_query": min(_timed(lambda: metrics_query(runs, run, ["reward_mean"])) for _ in range(5)),
        "index": _timed(lambda: runs.get(run).index.refresh("trajectories")),
    }
    sys.stdout.write(json.dumps(times))


def _a_step_later(runs: Runs, run: str) -> float:
    from lego_control.tools.status import run_status
    from lego_core.store.json_records import encode
    from tests.support.runs import step

    found = runs.get(run)
    with found.layout.steps.open("ab") as file:
        file.write(encode(step(run_status(runs, run).step + 1)) + b"\n")
    return _timed(lambda: run_status(runs, run))


def _status(folder: Path, run: str) -> None:
    """As a server answers it first: what answers is imported with the question."""
    from lego_control.runs import Runs
    from lego_control.tools.status import run_status

    run_status(Runs(folder), run)


def _timed(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def _start(runs: Path) -> float:
    """From starting the program to its answer to `initialize`."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    }
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}) + "\n"
    command = [sys.executable, "-m", "lego_control", "mcp", "--runs-dir", str(runs)]
    started = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(message)
        server.stdin.flush()
        server.stdout.readline()
        took = time.perf_counter() - started
        server.stdin.close()
    return took


def report(found: dict[str, float]) -> str:
    """As Markdown."""
    rows = "\n".join(
        f"| {name} | {value * 1000:.0f} ms | {AIMS[name] * 1000:.0f} ms |"
        for name, value in found.items()
        if name in AIMS
    )
    rate = found["index rows per second"]
    turns = NUM_STEPS * ROLLOUTS * TURNS
    return f"| what | time | aim |\n| --- | --- | --- |\n{rows}\n\nIndex: {rate:,.0f} rollouts a second ({turns:,} turns in all)."


def verdicts(found: dict[str, float]) -> list[tuple[str, bool]]:
    """What was aimed at, and whether it was reached."""
    return [(f"{name} in {aim * 1000:.0f} ms", found[name] <= aim) for name, aim in AIMS.items()]


if __name__ == "__main__":
    measured = measure()
    sys.stdout.write(report(measured) + "\n")
    sys.exit(int("--check" in sys.argv and not all(ok for _, ok in verdicts(measured))))
