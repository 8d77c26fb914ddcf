"""What several commands let one choose. Owns the words only."""

from __future__ import annotations

import click

SANDBOXES = click.Choice(["auto", "docker", "gvisor", "bubblewrap"])
