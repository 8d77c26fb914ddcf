"""Every theme can be read, and no status is told by colour alone."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from rich.style import Style
from textual.color import Color

from lego_tui.palette import GLYPHS, THEMES, palette, theme
from tests.support.watching import check_screen, watched


@pytest.mark.parametrize("name", THEMES)
def test_every_role_stands_out_from_the_background(name: str) -> None:
    look, back = palette(name), Color.parse(theme(name).background or "")
    styles = [getattr(look, f.name) for f in fields(look) if isinstance(getattr(look, f.name), Style)]
    for style in [*styles, *look.kinds.values()]:
        if style.color is not None and style.bgcolor is None:
            assert contrast(Color.from_rich_color(style.color), back) >= 4.5


def contrast(one: Color, other: Color) -> float:
    """WCAG 2.2."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: Color) -> float:
    parts = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in colour.normalized)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def test_the_levels_have_signs_of_their_own() -> None:
    assert len({GLYPHS[level] for level in ("ok", "watch", "bad")}) == 3


@pytest.mark.parametrize("name", THEMES)
async def test_a_theme_colours_the_screen(demo: Path, name: str) -> None:
    async with watched(demo, theme_name=name) as hand:
        check_screen(f"fleet-{name}", hand.painted)
        assert (theme(name).error or "").lower() in hand.app.export_screenshot().lower()


async def test_no_color_leaves_only_greys(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with watched(demo) as hand:
        assert "▲ watch" in hand.text
        found = hand.app.export_screenshot()
        assert "#ff6b4a" not in found.lower()
