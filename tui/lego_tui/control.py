"""The one thing the display may do to a run: ask it to stop, through its mailbox.

The trainer reads the request at the next step boundary and stops after a checkpoint; the request stays as a
record of who asked.
"""

from __future__ import annotations

from lego_core.store.mailbox import Asked, myself, post
from lego_harness.errors import InfrastructureError
from lego_tui.feed.run import RunFeed


def request_stop(run: RunFeed) -> str:
    """Ask; what came of it in a sentence."""
    if run.status != "running":
        return f"{run.name} does not run: nothing was asked"
    try:
        post(run.layout.root, Asked.STOP, who=myself(), via="tui", why="typed its name in lego watch")
    except InfrastructureError as error:
        return str(error)
    return f"{run.name} was asked to stop: it does so behind the checkpoint of its step"
