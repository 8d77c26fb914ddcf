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
    "--allow-control",
    is_flag=True,
    help="Offer tools that start, stop, pause and change runs; each asks a person.",
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Serve HTTP on loopback instead of stdio; 0 picks a free port.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the bearer token for --http.  [default: a new token, printed]",
)
def mcp(runs_dir: Path, allow_control: bool, port: int | None, token_file: Path | None) -> int:
    """Serve the runs to a coding agent over the Model Context Protocol (MCP)."""
    from lego_control.mcp_start import serve_http, serve_stdio

    if port is None and token_file is not None:
        raise UsageError(
            "--token-file goes with --http, stdio needs no token: add --http PORT, or leave it out"
        )
    if port is None:
        return serve_stdio(runs_dir, allow_control=allow_control)
    return serve_http(runs_dir, allow_control=allow_control, port=port, token_file=token_file)


COMMANDS = [mcp]
