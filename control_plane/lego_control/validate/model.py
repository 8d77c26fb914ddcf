"""The starting policy's folder, if it exists already."""

from __future__ import annotations

from pathlib import Path

from lego_control.validate.base import Ground
from lego_core.config import BUILT_POLICIES
from lego_core.model_config import read_config


def model_dir(ground: Ground) -> Path | None:
    """The checkpoint folder. For a policy that is built on the spot, the one that the core's proofs have built, or
    None before that."""
    if ground.recipe.model.path not in BUILT_POLICIES:
        return Path(ground.recipe.model.path)
    marker = ground.scratch / "model_dir"
    return Path(marker.read_text()) if marker.exists() else None


def weight_bytes(folder: Path) -> int:
    """Size of the weight files, whatever their format."""
    files = [*folder.glob("*.safetensors"), *folder.glob("*.bin")]
    return sum(path.stat().st_size for path in files) or int(read_config(folder).get("hidden_size", 0) ** 2)
