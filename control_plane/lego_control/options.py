"""Options that several commands share, and where runs are looked for. Owns only their wording."""

from __future__ import annotations

from pathlib import Path

import click

RUNS = Path("runs")
"""Where runs are when nobody says otherwise, as in a recipe."""
RUNS_DIR = click.option(
    "--runs-dir",
    type=click.Path(path_type=Path),
    default=RUNS,
    show_default=True,
    help="Folder that holds the runs.",
)
OVERRIDES = click.option(
    "--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="Change one key of the recipe."
)
SANDBOXES = click.Choice(["auto", "docker", "gvisor", "bubblewrap"])
