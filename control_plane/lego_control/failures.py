"""Errors of the operator interface: a word for programs, a sentence, and what to do next."""

from __future__ import annotations

from lego_control.fence import line
from lego_harness.errors import InfrastructureError, LegoError, UsageError


class Refusal(LegoError):
    """A request that was understood and not done; nothing was changed."""

    exit_code = 2

    def __init__(self, code: str, message: str, next_step: str) -> None:
        super().__init__(f"{message}; {next_step}")
        self.code, self.message, self.next_step = code, message, next_step


def describe(error: LegoError | OSError) -> dict[str, str]:
    """`error`, `message` and `next`, each one line without control characters."""
    if isinstance(error, Refusal):
        told = (error.code, error.message, error.next_step)
    elif isinstance(error, UsageError):
        told = ("usage", str(error), "correct the arguments and call again")
    elif isinstance(error, InfrastructureError):
        told = ("infrastructure", str(error), "try again; if it stays, look at the run directory by hand")
    elif isinstance(error, OSError):
        told = ("unreadable", f"{error.filename}: {error.strerror}", "check that it exists and may be read")
    else:
        told = ("failed", str(error), "read the message")
    return dict(zip(("error", "message", "next"), (line(part, 500) for part in told), strict=True))
