"""Every screen as a picture in text, at two sizes; LEGO_WRITE_SCREENS=1 writes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.watching import check_screen, watched

SIZES = {"80x24": (80, 24), "140x45": (140, 45)}
WAYS = {
    "fleet": (),
    "run": ("2",),
    "step": ("2", "3"),
    "group": ("2", "3", "enter"),
    "trajectory": ("2", "3", "enter", "enter"),
    "tokens": ("2", "3", "enter", "enter", "t"),
    "diff": ("2", "3", "enter", "d"),
    "verdict": ("2", "3", "enter", "enter", "i"),
    "health": ("5",),
    "sandboxes": ("6",),
    "pool": ("7",),
    "review": ("j", "enter", "8"),
    "help": ("question_mark",),
    "compare": ("space", "j", "space", "c"),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("screen", WAYS)
async def test_a_screen_looks_as_it_was_last_approved(demo: Path, screen: str, size: str) -> None:
    async with watched(demo, SIZES[size]) as hand:
        check_screen(f"{screen}-{size}", await hand.press(*WAYS[screen]))


@pytest.mark.parametrize("screen", WAYS)
async def test_no_screen_breaks_in_a_tiny_terminal(demo: Path, screen: str) -> None:
    async with watched(demo, (40, 10)) as hand:
        text = await hand.press(*WAYS[screen])
        assert all(len(line) <= 40 for line in text.splitlines())
        assert "LEGO" in text


@pytest.mark.parametrize("screen", WAYS)
async def test_ascii_mode_shows_nothing_but_ascii(demo: Path, screen: str) -> None:
    async with watched(demo, (100, 30), ascii_only=True) as hand:
        text = await hand.press(*WAYS[screen])
        assert text.isascii()


async def test_a_display_follows_the_size_of_its_terminal(demo: Path) -> None:
    async with watched(demo, (40, 10)) as hand:
        await hand.press("2")
        await hand.pilot.resize_terminal(140, 45)
        await hand.settle()
        check_screen("run-140x45", hand.text)
