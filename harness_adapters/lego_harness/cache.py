"""Where things that are built once are kept: harnesses, runtimes, proofs, facts about images. Owns only the place."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """`LEGO_CACHE`, else `~/.cache/lego-rl`."""
    return Path(os.environ.get("LEGO_CACHE") or Path.home() / ".cache" / "lego-rl").absolute()
