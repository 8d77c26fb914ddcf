"""`lego sandbox`: lists the sandboxes on this machine, and removes those that nobody owns.

Reads and removes only what carries our labels; a sandbox whose maker may still be alive is never touched.
"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict

import click

from lego_harness.errors import SetupError
from lego_harness.sandbox.base import SandboxBackend, Standing

_BACKENDS = ("docker", "bubblewrap")
BACKEND = click.option(
    "--sandbox", "backend", type=click.Choice(["all", *_BACKENDS]), default="all", show_default=True
)
RUN = click.option("--run", "label", metavar="RUN", help="Only sandboxes of this run.  [default: every run]")


@click.group()
def sandbox() -> None:
    """List and remove the sandboxes of this machine."""


@sandbox.command()
@BACKEND
@RUN
@click.option("--json", "for_programs", is_flag=True, help="One JSON object per line.")
def ls(backend: str, label: str | None, for_programs: bool) -> int:
    """List sandboxes, and say which have lost their owner."""
    found = [one for kind in _chosen(backend) for one in asyncio.run(kind.standing(label))]
    for one in found:
        click.echo(json.dumps(asdict(one)) if for_programs else _line(one))
    if not found and not for_programs:
        click.echo("no sandboxes")
    return 0


@sandbox.command()
@BACKEND
@RUN
def reap(backend: str, label: str | None) -> int:
    """Remove the sandboxes whose owner has ended."""
    for kind in _chosen(backend):
        click.echo(f"{kind.name}: removed {asyncio.run(kind.reap(label))}")
    return 0


def _chosen(name: str) -> list[SandboxBackend]:
    """The backends asked for; for `all`, those that are available. Raises SetupError."""
    from lego_harness.sandbox.choose import choose_backend

    if name != "all":
        return [choose_backend(name)]
    found: list[SandboxBackend] = []
    for kind in map(choose_backend, _BACKENDS):
        try:
            asyncio.run(kind.standing("none"))
        except SetupError as error:
            click.echo(f"lego: {kind.name} is left out: {error}", err=True)
        else:
            found.append(kind)
    return found


def _line(one: Standing) -> str:
    age = max(0.0, time.time() - one.created)
    owner = "nobody's" if one.is_orphan else "in use"
    return f"{one.backend:<10}  {owner:<8}  {age:>8.0f} s  {one.label}  {one.name}"


COMMANDS = [sandbox]
