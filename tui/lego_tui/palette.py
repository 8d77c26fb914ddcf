"""Colours by role, one set per theme; nothing else in the display names a colour.

Status is glyph, word and colour together, so that no single one of them is needed. The default pair is blue and
orange, which can be told apart with every common colour blindness; `lego-okabe` uses Okabe and Ito's set.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from rich.style import Style
from textual.theme import Theme

GLYPHS = {
    "ok": "✓", "running": "●", "finished": "✓", "watch": "▲", "interrupted": "◼", "bad": "✖", "failed": "✖",
    "unreadable": "?", "healthy": "✓", "collapsed": "✖", "unknown": "?",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Palette:
    """Styles by what they mean."""

    text: Style
    dim: Style
    strong: Style
    ok: Style
    watch: Style
    bad: Style
    accent: Style
    cursor: Style
    bar: Style
    kinds: dict[str, Style]
    """By kind of action, for strips."""

    def level(self, level: str) -> Style:
        """Style of a status or level."""
        if level in ("ok", "running", "finished", "healthy"):
            return self.ok
        if level == "unknown":
            return self.dim
        return self.watch if level in ("watch", "interrupted", "unreadable") else self.bad


@dataclass(frozen=True, kw_only=True, slots=True)
class _Colours:
    text: str
    dim: str
    back: str
    bar: str
    cursor: str
    ok: str
    watch: str
    bad: str
    accent: str
    third: str
    dark: bool = True


_SETS = {
    "lego-dark": _Colours(
        text="#d7dae0", dim="#8a93a3", back="#12151b", bar="#1d222b", cursor="#2b3a52",
        ok="#5aa9ff", watch="#ffb454", bad="#ff6b4a", accent="#8fd0ff", third="#c3a6ff",
    ),
    "lego-light": _Colours(
        text="#1e2329", dim="#5d6570", back="#fafafa", bar="#e8ebf0", cursor="#cfe0f7",
        ok="#0b5cad", watch="#8f5200", bad="#b3260b", accent="#0a6fb5", third="#6a3fb5", dark=False,
    ),
    "lego-contrast": _Colours(
        text="#ffffff", dim="#d0d0d0", back="#000000", bar="#000000", cursor="#0000aa",
        ok="#00ffff", watch="#ffff00", bad="#ff8080", accent="#ffffff", third="#ff80ff",
    ),
    "lego-okabe": _Colours(
        text="#e6e6e6", dim="#a0a0a0", back="#101010", bar="#202020", cursor="#3a3a3a",
        ok="#56b4e9", watch="#e69f00", bad="#d55e00", accent="#f0e442", third="#cc79a7",
    ),
}  # fmt: skip
THEMES = tuple(_SETS)


def theme(name: str) -> Theme:
    """The Textual theme of a set."""
    c = _SETS[name]
    return Theme(
        name=name,
        primary=c.accent,
        secondary=c.third,
        warning=c.watch,
        error=c.bad,
        success=c.ok,
        accent=c.accent,
        foreground=c.text,
        background=c.back,
        surface=c.back,
        panel=c.bar,
        dark=c.dark,
        variables={"cursor": c.cursor, "dim": c.dim},
    )


@cache
def palette(name: str) -> Palette:
    """Styles of a set; the default's for a theme that is not ours."""
    c = _SETS.get(name, _SETS["lego-dark"])
    kinds = {
        "explore": c.dim, "read": c.accent, "edit": c.watch, "test": c.ok, "run": c.third, "finish": c.ok,
        "failed": c.bad, "malformed": c.bad, "say": c.dim,
    }  # fmt: skip
    return Palette(
        text=Style(color=c.text),
        dim=Style(color=c.dim),
        strong=Style(color=c.text, bold=True),
        ok=Style(color=c.ok),
        watch=Style(color=c.watch, bold=True),
        bad=Style(color=c.bad, bold=True),
        accent=Style(color=c.accent),
        cursor=Style(bgcolor=c.cursor),
        bar=Style(color=c.text, bgcolor=c.bar),
        kinds={
            kind: Style(color=colour, bold=kind in ("failed", "malformed", "finish"))
            for kind, colour in kinds.items()
        },
    )
