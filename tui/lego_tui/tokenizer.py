"""Token ids as text, where the policy's tokenizer can be found.

Owns one tokenizer, loaded in a thread when tokens are looked at for the first time. A checkpoint without
one, or a broken one, means ids without text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Decoder:
    """The tokenizer of the chosen run's policy."""

    def __init__(self) -> None:
        self.version = 0
        self._path: Path | None = None
        self._tokenizer: Any = None

    def wants(self, folder: Path) -> bool:
        """True if that tokenizer exists and was not tried yet."""
        return folder != self._path and (folder / "tokenizer.json").is_file()

    def load(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._path = folder
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        except Exception:  # noqa: BLE001 - the library raises bare Exception for a file it cannot read
            self._tokenizer = None
        self.version += 1

    @property
    def decode(self) -> Any:
        """id → text; None without a tokenizer."""
        return self._decode if self._tokenizer is not None else None

    def _decode(self, token: int) -> str:
        try:
            return self._tokenizer.decode([token], skip_special_tokens=False)
        except OverflowError:  # a negative or huge id
            return "\ufffd"
