"""What a checkpoint's config.json says about its language model.

Multimodal checkpoints, Qwen3.5 among them, describe the language model under `text_config`; all others at the top
level. Invariant: callers see the same keys for both. Free of torch; judges nothing.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lego_harness.errors import UsageError


def read_config(folder: Path) -> dict[str, Any]:
    """The part of a checkpoint's config.json that describes the language model. Raises UsageError."""
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / 'config.json'}: cannot be read as JSON: {error}") from error
    return config.get("text_config", config)


def vocab_size(folder: Path) -> int:
    """Rows of the checkpoint's embedding. Raises UsageError if config.json does not say."""
    size = read_config(folder).get("vocab_size")
    if size is None:
        raise UsageError(f"{folder / 'config.json'}: has no vocab_size, expected that of a language model")
    return int(size)
