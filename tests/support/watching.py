"""`lego watch` in a test: driven by keys, read as text."""

from __future__ import annotations

import io
import itertools
import operator
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from textual.pilot import Pilot

from lego_tui.app import Watch
from lego_tui.feed.fleet import Fleet

SCREENS = Path(__file__).parents[1] / "tui" / "screens"
WRITES = bool(os.environ.get("LEGO_WRITE_SCREENS"))
"""Set it to write the pictures anew; then look at each in the diff."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A display and the hand at its keyboard."""

    app: Watch
    pilot: Pilot[None]

    async def settle(self) -> None:
        """Until everything that is shown has been read."""
        for _ in range(2000):
            await self.pilot.pause(0.01)
            app = self.app
            if not app.is_running:
                return
            runs = app.state.fleet.runs.values()
            is_busy = app.state.fleet.is_behind or app.is_due or app.is_reading
            if runs and not is_busy and not app.page.needs():
                await self.pilot.pause()
                return
        raise AssertionError("the display never had everything it needs")

    async def press(self, *keys: str) -> str:
        """Press keys one after the other; the screen after them."""
        for key in keys:
            await self.pilot.press(key)
        await self.settle()
        return self.text

    async def type(self, text: str) -> str:
        """Type into the prompt and enter it."""
        await self.pilot.press(*(_key(char) for char in text), "enter")
        await self.settle()
        return self.text

    @property
    def text(self) -> str:
        """What the terminal shows."""
        width, height = self.app.size
        console = Console(
            width=width, height=height, file=io.StringIO(), force_terminal=True, color_system=None,
            record=True, legacy_windows=False,
        )  # fmt: skip
        # As App.export_screenshot does it, without the drawing around.
        console.print(self.app.screen._compositor.render_update(full=True))
        lines = console.export_text(styles=False).splitlines()
        return "\n".join(line.rstrip() for line in lines).rstrip() + "\n"

    @property
    def painted(self) -> str:
        """What the terminal shows, each line followed by its colours: how many cells are in which."""
        lines: list[str] = []
        for strip in self.app.screen._compositor.render_strips():
            styles = [(str(part.style or ""), part.cell_length) for part in strip]
            runs = [
                f"{sum(cells for _, cells in some)}×{style}"
                for style, some in itertools.groupby(styles, key=operator.itemgetter(0))
            ]
            lines += [strip.text.rstrip(), f"    {' | '.join(runs)}"]
        return "\n".join(lines) + "\n"


def _key(char: str) -> str:
    names = {
        " ": "space",
        "-": "minus",
        "_": "underscore",
        ".": "full_stop",
        "/": "slash",
        "!": "exclamation_mark",
    }
    return names.get(char, char)


@asynccontextmanager
async def watched(root: Path, size: tuple[int, int] = (80, 24), **options: Any) -> AsyncIterator[Watched]:
    """The display of a folder, everything read."""
    app = Watch(Fleet(root), **options)
    async with app.run_test(size=size) as pilot:
        hand = Watched(app=app, pilot=pilot)
        await hand.settle()
        yield hand


def check_screen(name: str, text: str) -> None:
    """Compare with the stored picture."""
    path = SCREENS / f"{name}.txt"
    if WRITES:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path} is missing: write it with LEGO_WRITE_SCREENS=1 and look at it"
    assert text == path.read_text(encoding="utf-8")
