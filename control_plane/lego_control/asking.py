"""Asks a person a question through the client, and says what they typed.

Owns the asking. Invariants: a client that cannot ask is refused, and so is a name that does not fit; an answer counts
once, for the words that were shown. The caller decides what the question is.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar, cast

from mcp.server.elicitation import AcceptedElicitation
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.resolve import Elicit
from pydantic import BaseModel, Field

from lego_control.failures import Refusal, describe
from lego_harness.errors import LegoError

Form = TypeVar("Form", bound=BaseModel)


class Typed(BaseModel):
    """What the person is asked for."""

    run_name: str = Field(description="Type the name of the run to confirm.")


class TypedJob(BaseModel):
    """What the person is asked for who ends a job."""

    job: str = Field(description="Type the name of the job to confirm.")


class Questions:
    """The questions that people are asked. A client of the newer protocol repeats its call with the answer, which
    counts only for the exact words that were shown. These are kept, because a run's numbers change while the person
    types."""

    MOST = 256

    def __init__(self) -> None:
        self._shown: OrderedDict[tuple[str, ...], str] = OrderedDict()

    def ask(
        self, ctx: Context, about: tuple[str, ...], make: Callable[[], str], form: type[Form]
    ) -> Elicit[Form]:
        """The question for a call with the arguments `about`; the earlier question if this call brings the answer
        to it."""
        shown = self._shown.pop(about, None) if ctx.input_responses else None
        if shown is None:
            shown = self._shown[about] = _asked(ctx, make)
            while len(self._shown) > self.MOST:
                self._shown.popitem(last=False)
        return Elicit(shown, form)


def _asked(ctx: Context, question: Callable[[], str]) -> str:
    """The question, or why nobody can be asked."""
    capabilities = ctx.client_capabilities
    try:
        if capabilities is None or capabilities.elicitation is None:
            raise Refusal(
                "no_person",
                "this client cannot ask a person",
                "a person may do it on the command line: lego --help",
            )
        return question()
    except (LegoError, OSError) as error:
        raise ToolError(json.dumps(describe(error))) from error


def typed(answer: Any) -> str | None:
    """The name that a person typed; None if they declined."""
    if not isinstance(answer, AcceptedElicitation):
        return None
    # The package leaves the answer's type open; it was validated against the form that was asked for.
    form = cast(Typed | TypedJob, answer.data)  # pyright: ignore[reportUnknownMemberType] mcp's is untyped
    return form.run_name if isinstance(form, Typed) else form.job


def client_of(ctx: Context) -> str:
    """Who calls, for the audit log."""
    params = ctx.session.client_params
    return f"{params.client_info.name} {params.client_info.version}" if params else "an MCP client"
