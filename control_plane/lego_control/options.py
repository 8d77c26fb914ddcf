"""What several commands let one choose. Owns the words only."""

from __future__ import annotations

import click

OVERRIDES = click.option(
    "--set", "overrides", multiple=True, metavar="SECTION.KEY=VALUE", help="Change one key of the recipe."
)
SANDBOXES = click.Choice(["auto", "docker", "gvisor", "bubblewrap"])
