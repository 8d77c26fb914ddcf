"""A recording through the proxy, for programs (a JSON line per session) and for people (tables)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lego_harness.errors import SetupError, UsageError
from lego_harness.proxy.render import Renderer
from lego_harness.text import one_line
from lego_harness.wire.byte_tokenizer import UNLIMITED, byte_renderer
from lego_harness.wire.outcome import is_conserved, outcome
from lego_harness.wire.recording import read_recording
from lego_harness.wire.replay import replay

NOT_CONSERVED = 1


def replay_file(path: Path, *, tokenizer: Path | None, for_programs: bool) -> int:
    """Replay and show; returns the exit code. Raises UsageError."""
    calls = read_recording(path)
    replayed = asyncio.run(replay(calls, _renderer(tokenizer)))
    for number, one in enumerate(replayed, 1):
        counts = outcome(one)
        if for_programs:
            click.echo(json.dumps(counts))
        else:
            _draw(f"session {number} of {len(replayed)}", counts, is_conserved(one))
    return 0 if all(map(is_conserved, replayed)) else NOT_CONSERVED


def _renderer(tokenizer: Path | None) -> Renderer:
    if tokenizer is None:
        return byte_renderer()
    try:
        return Renderer.load(tokenizer, max_model_len=UNLIMITED)
    except SetupError as error:
        raise UsageError(f"--tokenizer {tokenizer}: {error}") from error


def _draw(title: str, counts: dict[str, Any], conserved: bool) -> None:
    console = Console()
    console.print(_branches(title, counts))
    verdict = "conserved" if conserved else "NOT CONSERVED"
    lines = [
        f"{counts['turns']} turns, {counts['sub_agents']} sub-agents; {counts['sampled']} tokens sampled = "
        f"{counts['trained']} trained + {sum(counts['masked'].values())} masked: {verdict}",
        *_named("masked", counts["masked"]),
        *_named("side calls", counts["side_calls"]),
        *(_fork(fork) for fork in counts["forks"]),
        *(f"error: {one_line(json.dumps(error))}" for error in counts["errors"]),
    ]
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _branches(title: str, counts: dict[str, Any]) -> Table:
    table = Table(
        "branch", "begins as", "at message", "context", "trained", title=title, title_justify="left"
    )
    for number, branch in enumerate(counts["branches"]):
        numbers = (branch["at"], branch["tokens_context"], branch["tokens_trained"])
        table.add_row(str(number), Text(branch["cause"]), *map(str, numbers))
    return table


def _fork(fork: dict[str, Any]) -> str:
    why = f": {one_line(fork['detail'])}" if fork["detail"] else ""
    return f"fork at turn {fork['turn']}, message {fork['message']}: {fork['cause']}{why}"


def _named(what: str, counts: dict[str, int]) -> list[str]:
    return [f"{what}: " + ", ".join(f"{name} {count}" for name, count in counts.items())] if counts else []
