"""Text from a model, a tool or a file name, on its way to a terminal.

Invariant: the result moves no cursor, changes no colour, reverses no direction and hides nothing:
each control, direction and invisible character is shown as a visible sign. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, set_cell_size

MAX_LINE = 20_000
"""Characters of one logical line that are laid out; the rest is counted."""
_ODD = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)
_NAMES = {
    "\u200e": "LRM", "\u200f": "RLM", "\u061c": "ALM", "\u202a": "LRE", "\u202b": "RLE", "\u202c": "PDF",
    "\u202d": "LRO", "\u202e": "RLO", "\u2066": "LRI", "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI",
    "\u200b": "ZWSP", "\u200c": "ZWNJ", "\u200d": "ZWJ", "\ufeff": "BOM",
}  # fmt: skip


def clean(text: object) -> str:
    """`text` with every odd character made visible; newlines stay, tabs are four blanks.

    >>> clean("a\\x1b[31m\\u202eb")
    'a␛[31m⟨RLO⟩b'
    """
    return _ODD.sub(_sign, str(text).replace("\r\n", "\n").replace("\t", "    "))


def one_line(text: object, limit: int = 300) -> str:
    """`text` on one line, cut to `limit` characters."""
    line = " ".join(clean(str(text)[: 4 * limit]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def tail(text: object, limit: int) -> str:
    """`text` on one line, cut to its last `limit` characters: of a path they say most."""
    line = one_line(text, 4000)
    return line if len(line) <= limit else "…" + line[len(line) - max(limit - 1, 1) :]


def wrap(text: object, width: int) -> Iterator[str]:
    """Lines of at most `width` cells; a line too long to lay out ends in how much is left out."""
    width = max(width, 4)
    for line in clean(text).split("\n"):
        rest = line[:MAX_LINE]
        while True:
            piece, rest = _cut(rest, width)
            yield piece
            if not rest:
                break
        if len(line) > MAX_LINE:
            yield f"… {len(line) - MAX_LINE:,} more characters on this line"


def fit(text: str, width: int, *, right: bool = False) -> str:
    """`text` in exactly `width` cells."""
    if width <= 0:
        return ""
    cells = cell_len(text)
    if cells > width:
        return set_cell_size(text, width - 1) + "…"
    return " " * (width - cells) + text if right else text + " " * (width - cells)


def _cut(line: str, width: int) -> tuple[str, str]:
    if line.isascii():
        return _at_blank(line, width)
    if cell_len(line[: width + 1]) <= width and len(line) <= width:
        return line, ""
    cells = taken = 0
    for char in line:
        cells += cell_len(char)
        if cells > width:
            break
        taken += 1
    blank = line.rfind(" ", 2 * taken // 3, taken + 1)
    if blank > 0:
        return line[:blank], line[blank + 1 :]
    return line[: max(taken, 1)], line[max(taken, 1) :]


def _at_blank(line: str, width: int) -> tuple[str, str]:
    """Break at a blank of the last third, else anywhere."""
    if len(line) <= width:
        return line, ""
    blank = line.rfind(" ", 2 * width // 3, width + 1)
    cut = blank if blank > 0 else width
    return line[:cut], line[cut + (blank > 0) :]


def _sign(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"⟨{_NAMES.get(char, f'U+{code:04X}')}⟩"
