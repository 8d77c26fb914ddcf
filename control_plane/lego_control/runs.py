"""The runs of one folder, by name, as an operator sees them.

Owns the way from a name that anybody may send to a run directory: plain names only, directly below the folder.
Invariant: nothing here writes to a run, and whatever is wrong with one run (half written, another
version, not readable, gone) is reported for that run alone. `run.py` reads a run and is imported with the first one.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lego_control.failures import Refusal

if TYPE_CHECKING:
    from lego_control.run import Run

MAX_OPEN = 32
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Runs:
    """The folder. Only the few runs that were asked for last keep their index open: each takes three files, and a
    process may have a few hundred."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: OrderedDict[str, Run] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, name: str) -> Run:
        """A readable run by its name. Raises Refusal."""
        from lego_control.run import Run

        if not RUN_NAME.fullmatch(name) or name in (".", ".."):
            raise Refusal("unknown_run", "that is no name of a run", "take a name from runs_list (lego runs)")
        run = self._open.get(name) or Run(self.folder / name)
        run.check()
        with self._mutex:
            run = self._open.setdefault(name, run)
            self._open.move_to_end(name)
            while len(self._open) > MAX_OPEN:
                _, longest = self._open.popitem(last=False)
                longest.index.close()  # if somebody still asks it, it opens again
        return run

    def names(self) -> Iterator[str]:
        """Names of what may be runs, newest first. Raises Refusal if the folder cannot be read."""
        try:
            found = [path for path in self.folder.iterdir() if RUN_NAME.fullmatch(path.name)]
        except OSError as error:
            raise Refusal(
                "no_runs_folder",
                f"{self.folder} cannot be read: {error.strerror}",
                "give --runs-dir a folder with runs",
            ) from error
        made = {path.name: _made(path / "run.json") for path in found}
        yield from sorted((name for name, when in made.items() if when), key=lambda name: (-made[name], name))


def _made(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
