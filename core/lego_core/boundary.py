"""Answers people's requests at a step boundary: stop, pause, go on.

Owns the order: a request is read after a committed step, and acknowledged in the run's events before
it takes effect. Requests from two people both count. Law 9: nothing here stops a run of its own accord.
"""

from __future__ import annotations

import asyncio

from lego_core.store.mailbox import ACKNOWLEDGED, Asked, Request, RunStopped
from lego_core.store.writer import RunWriter
from lego_harness.text import one_line

LOOK_EVERY_S = 1.0
"""How often a paused run looks for a request to go on."""


class Boundary:
    """Asked once per step."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._waiting: list[Request] = []

    def is_wanted(self) -> bool:
        """Whether somebody has asked for something, so that the step that just ended must be committed."""
        self._waiting += self._writer.mailbox.new()
        return bool(self._waiting)

    async def heed(self, step: int) -> None:
        """Do what was asked if `step` is committed; otherwise the request waits for a committed step. Raises
        RunStopped; does not return while paused."""
        is_paused = False
        if step and not self._writer.layout.checkpoint(step).is_dir():
            return
        while self.is_wanted() or is_paused:
            for request in self._waiting:
                is_paused = self._acknowledge(request, step, is_paused)
            stop = next((request for request in self._waiting if request.asked is Asked.STOP), None)
            self._waiting.clear()
            if stop is not None:
                why = one_line(stop.why, limit=200) or "no reason given"
                raise RunStopped(f"stopped by {one_line(stop.who, limit=80)} behind step {step}: {why}")
            if is_paused:
                await asyncio.sleep(LOOK_EVERY_S)

    def _acknowledge(self, request: Request, step: int, was_paused: bool) -> bool:
        """Report it in the run's events; returns whether the run is paused from now on."""
        is_paused = was_paused if request.asked is Asked.STOP else request.asked is Asked.PAUSE
        outcome = {Asked.STOP: "stopping", Asked.PAUSE: "paused"}.get(request.asked, "running")
        self._writer.event(
            ACKNOWLEDGED, request=request.id, asked=request.asked.value, outcome=outcome, step=step
        )
        return is_paused
