"""The commands about recorded traffic and about capture without training: their options, nothing else.

As in `cli.py`, what a command needs is imported when it runs.
"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Checkpoint whose tokenizer and chat template are used.  [default: one token per byte]",
)
@click.option("--json", "for_programs", is_flag=True, help="One JSON object per session instead of tables.")
def replay(file: Path, tokenizer: Path | None, for_programs: bool) -> int:
    """Replay the recorded traffic of FILE. Exit 1 if a token was lost."""
    from lego_control.replay import replay_file

    return replay_file(file, tokenizer=tokenizer, for_programs=for_programs)


COMMANDS = [replay]
