"""What the live display costs on a long run: 5,000 steps, 320,000 rollouts, 2.5 million turns.

    python -m benchmarks.watch            writes the run into a temporary folder, measures, prints a table

Owns the run and the measurements. The records of a step are the real writer's; its trajectories are stored
once and every step's index points at them, so that the index has its full size and the disk does not.
Times are CPU seconds of the display's process, so that a busy machine does not change them much, and wall
seconds beside them. Textual's own DataTable with the same rows is the comparison.
"""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import os
import pty
import resource
import struct
import subprocess
import sys
import tempfile
import termios
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.app import App
from textual.pilot import Pilot
from textual.widgets import DataTable

from lego_control.demo_runs.stories import STORIES
from lego_control.demo_runs.write import write_story, write_tokenizer
from lego_tui.app import Watch
from lego_tui.feed.fleet import Fleet

STEPS, ROLLOUTS = 5000, 64
SCREENS = (
    ("2", "Run"),
    ("3", "Step"),
    ("4", "Trajectory"),
    ("5", "Health"),
    ("6", "Sandboxes"),
    ("7", "Pool"),
    ("8", "Review"),
)
FOLLOWED_S = 10
DATA_TABLE_ROWS = 5000


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One measurement."""

    what: str
    cpu_s: float
    wall_s: float
    aim: str = ""


def long_run(folder: Path, steps: int = STEPS, rollouts: int = ROLLOUTS) -> Path:
    """A run of that size."""
    run = write_story(folder, STORIES[0], model=write_tokenizer(folder), steps=4)
    records = [json.loads(line) for line in (run / "steps.jsonl").read_text().splitlines()]
    entries = [json.loads(line) for line in (run / "trajectories" / "index.jsonl").read_text().splitlines()]
    with (run / "steps.jsonl").open("a") as file:
        for step in range(5, steps + 1):
            ids = [f"s{step:05d}.g{n // 8:02d}.r{n % 8}" for n in range(rollouts)]
            file.write(json.dumps({**records[step % 4], "step": step, "trained_rollouts": ids}) + "\n")
    with (run / "trajectories" / "index.jsonl").open("a") as file:
        for step in range(5, steps + 1):
            for n in range(rollouts):
                entry = {**entries[(step * rollouts + n) % len(entries)], "step": step}
                entry |= {
                    "id": f"s{step:05d}.g{n // 8:02d}.r{n % 8}",
                    "task": f"train-{(step * 8 + n // 8) % 2699:04d}",
                }
                file.write(json.dumps(entry) + "\n")
    return run


async def measure(run: Path) -> list[Row]:
    """Open, visit every screen, follow."""
    rows: list[Row] = []
    gc.freeze()  # as `lego watch` does
    clock = _Clock()
    app = Watch(Fleet(run))
    async with app.run_test(size=(120, 36)) as pilot:
        while app.state.run is None or not len(app.state.run.steps) or not app.num_draws:
            await pilot.pause(0.01)
        rows.append(clock.row("in it: the first picture with numbers"))
        while app.state.fleet.is_behind:
            await pilot.pause(0.05)
        rows.append(clock.row("the whole index read, in the background"))
        for key, title in SCREENS:
            clock = _Clock()
            await _press(pilot, app, key)
            rows.append(clock.row(f"screen {title}", "≤ 0.2 s"))
            while app.is_reading or app.page.needs():
                await pilot.pause(0.02)
        await pilot.press("2")
        going_on = _GoingOn(run)
        clock, draws = _Clock(), app.num_draws
        for _ in range(FOLLOWED_S):
            going_on.append_step()
            await asyncio.sleep(1)
        followed = clock.row(
            f"following a step a second for {FOLLOWED_S} s ({app.num_draws - draws} redraws)", "CPU ≤ 5 %"
        )
        rows.append(followed)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return [*rows, Row(what=f"memory at its highest: {memory:.0f} MB", cpu_s=0, wall_s=0, aim="≤ 300 MB")]


async def _press(pilot: Pilot[None], app: Watch, key: str) -> None:
    """Press a key, until what it leads to is on the terminal."""
    draws, painted = app.num_draws, asyncio.Event()
    app.simulate_key(key)
    while app.num_draws == draws:
        await pilot.pause(0.001)
    app.call_after_refresh(painted.set)
    await painted.wait()


class _Clock:
    def __init__(self) -> None:
        self._wall, self._cpu = time.monotonic(), time.process_time()

    def row(self, what: str, aim: str = "") -> Row:
        return Row(
            what=what, cpu_s=time.process_time() - self._cpu, wall_s=time.monotonic() - self._wall, aim=aim
        )


class _GoingOn:
    """Steps with their rollouts, each like the run's last one."""

    def __init__(self, run: Path) -> None:
        self._steps, self._index = run / "steps.jsonl", run / "trajectories" / "index.jsonl"
        self._record = json.loads(_tail(self._steps, 1)[0])
        self._entries = [json.loads(line) for line in _tail(self._index, ROLLOUTS)]
        self._step = int(self._record["step"])

    def append_step(self) -> None:
        self._step += 1
        ids = [{"step": self._step, "id": f"s{self._step:05d}{entry['id'][6:]}"} for entry in self._entries]
        rollouts = [json.dumps(entry | own) for entry, own in zip(self._entries, ids, strict=True)]
        with self._index.open("a") as index, self._steps.open("a") as steps:
            index.write("\n".join([*rollouts, ""]))
            steps.write(json.dumps({**self._record, "step": self._step}) + "\n")


def _tail(path: Path, count: int, *, most: int = 4096) -> list[bytes]:
    """The last lines, none of which is longer than `most` bytes."""
    with path.open("rb") as file:
        file.seek(max(path.stat().st_size - (count + 1) * most, 0))
        return file.read().splitlines()[-count:]


class _Table(App[None]):
    """The same numbers in Textual's DataTable."""

    def compose(self) -> Any:
        yield DataTable()

    def on_mount(self) -> None:
        table = self.query_one(DataTable)
        table.add_columns(*"abcdefgh")
        for step in range(DATA_TABLE_ROWS):
            table.add_row(*(f"{step}.{n}" for n in range(8)))


async def compare() -> Row:
    """First picture of a DataTable of as many rows as the run has steps."""
    clock, app = _Clock(), _Table()
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.pause()
    return clock.row(f"Textual's DataTable with {DATA_TABLE_ROWS:,} rows of 8")


def start(run: Path) -> Row:
    """The program as it is typed, from its start until its terminal shows a metric."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 36, 120, 0, 0))
    before, clock, seen = resource.getrusage(resource.RUSAGE_CHILDREN), _Clock(), b""
    command = [sys.executable, "-m", "lego_control", "watch", str(run)]
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm-256color"}
    ) as program:
        os.close(theirs)  # reading ends when the program does
        while b"entropy" not in seen:
            seen += os.read(ours, 65536)
        wall_s = clock.row("").wall_s
        program.kill()
    os.close(ours)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Row(
        what="the command, from its start to the first picture with numbers",
        cpu_s=cpu_s,
        wall_s=wall_s,
        aim="≤ 1 s",
    )


def report(rows: list[Row]) -> str:
    """A Markdown table."""
    lines = ["| what | CPU s | wall s | aim |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *(f"| {r.what} | {r.cpu_s:.2f} | {r.wall_s:.2f} | {r.aim} |" for r in rows)])


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        run = long_run(Path(folder))
        rows = [start(run), *asyncio.run(measure(run))]
    sys.stdout.write(report([*rows, asyncio.run(compare())]) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
