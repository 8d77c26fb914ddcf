"""The command `lego mcp`: its options, nothing else.

As in `cli.py`, what a command needs is imported when it runs.
"""

from __future__ import annotations

from pathlib import Path

import click

from lego_control.options import RUNS_DIR
from lego_harness.errors import UsageError


@click.command()
@RUNS_DIR
@click.option(
    "--allow-control", is_flag=True, help="Offer tools that stop, pause, start and note; each asks a person."
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Streamable HTTP on loopback instead of stdio; 0 takes any port.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Bearer token for --http.  [default: one is made and told]",
)
def mcp(runs_dir: Path, allow_control: bool, port: int | None, token_file: Path | None) -> int:
    """Serve the runs to a coding agent, by the Model Context Protocol."""
    from lego_control.mcp_start import serve_http, serve_stdio

    if port is None and token_file is not None:
        raise UsageError(
            "--token-file goes with --http, stdio needs no token: add --http PORT, or leave it out"
        )
    if port is None:
        return serve_stdio(runs_dir, allow_control=allow_control)
    return serve_http(runs_dir, allow_control=allow_control, port=port, token_file=token_file)


COMMANDS = [mcp]
