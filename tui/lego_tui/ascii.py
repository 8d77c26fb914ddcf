"""Every character of the screen in ASCII, for terminals without UTF-8.

Owns the replacement; it is applied to complete lines after drawing, so that nothing gets past it. Widths stay:
a character of two cells becomes two.
"""

from __future__ import annotations

import os

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_PLAIN = {
    "✓": "+", "✖": "X", "▲": "!", "●": "o", "○": ".", "◐": "%", "◌": "-", "◼": "#", "◇": "/", "–": "-", "—": "-",
    "·": ".", "…": "~", "│": "|", "─": "-", "├": "+", "└": "+", "┤": "|", "┴": "+", "▸": ">", "◂": "<", "→": ">",
    "←": "<", "↑": "^", "↓": "v", "≥": ">", "≤": "<", "±": "+", "⟨": "<", "⟩": ">", "▁": "_", "▂": ".", "▃": "-",
    "▄": "=", "▅": "=", "▆": "*", "▇": "#", "█": "#", "Δ": "d", "×": "x", "␛": "^", "▊": "|", "▎": "|", "┃": "|",
    "\u2800": " ", "ε": "e", "★": "*", "☆": " ",
}  # fmt: skip


def plain(text: str) -> str:
    """`text` in ASCII of the same width."""
    return text if text.isascii() else "".join(map(_plain, text))


def _plain(char: str) -> str:
    if char.isascii():
        return char
    if "\u2800" < char <= "\u28ff":
        return _dots(ord(char) - 0x2800)
    if "\u2500" <= char <= "\u257f":
        return "-" if char in "─━╌╍═" else "|" if char in "│┃║" else "+"
    return _PLAIN.get(char, "?") if cell_len(char) == 1 else "?" * cell_len(char)


def _dots(bits: int) -> str:
    """A braille cell by where its dots are."""
    top, bottom = bool(bits & 0x1B), bool(bits & 0xE4)
    return ":" if top and bottom else "'" if top else "."


class AsciiFilter(LineFilter):
    """Draws lines in ASCII."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.control else Segment(plain(segment.text), segment.style)
            for segment in segments
        ]


def is_needed() -> bool:
    """True if the terminal's locale says that it does not show UTF-8."""
    said = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "UTF-8"
    return "utf" not in said.lower()
