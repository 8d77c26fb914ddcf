"""An answer that is an error: raised where it is known, shaped by the dialect that was spoken.

Invariant: never a 5xx, since harnesses retry those or change their tools after them.
"""

from __future__ import annotations

from http import HTTPStatus


class Refusal(Exception):
    """A request that gets an error of its dialect; the text is one complete line."""

    def __init__(self, message: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
