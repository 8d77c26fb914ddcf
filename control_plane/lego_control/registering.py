"""From a function to a tool: schemas from its signature, its failures as objects.

Owns the annotations and argument types that tools share. Invariant: a result is the model as structured content and
the same as compact JSON; a failure is an object with `error`, `message` and `next`, marked as an error.
"""

import functools
import inspect
import json
import typing
from collections.abc import Callable
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from lego_control.failures import describe
from lego_harness.errors import LegoError

RO = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)
ACTS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
IDEMPOTENT = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
HUMAN = {"anthropic/requiresUserInteraction": True}
Run = Annotated[str, Field(description="Name of a run, from runs_list.", max_length=128)]
Cursor = Annotated[str | None, Field(description="next_cursor of the last result.", max_length=80)]
First = Annotated[int, Field(description="First step.", ge=0)]
Last = Annotated[int | None, Field(description="Last step; by default the newest.", ge=0)]
Reason = Annotated[str, Field(description="Why, for the audit log.", min_length=3, max_length=500)]
Limit = Annotated[int, Field(ge=1, le=200)]


def add(
    server: MCPServer,
    fn: Callable[..., BaseModel],
    name: str,
    told: str,
    hints: ToolAnnotations,
    meta: dict[str, Any] | None = None,
) -> None:
    """Offer `fn` as a tool: its signature is the input schema, its return annotation the output schema."""
    server.add_tool(_answering(fn), name=name, description=told, annotations=hints, meta=meta)


def _answering(fn: Callable[..., BaseModel]) -> Callable[..., Any]:
    """The function with its model as structured content and as compact text, its failures as objects."""

    @functools.wraps(fn)
    def answer(*args: Any, **kwargs: Any) -> CallToolResult:
        try:
            content = fn(*args, **kwargs).model_dump(mode="json")
        except (LegoError, OSError) as error:
            return _result(dict(describe(error)), is_error=True)
        return _result(content)

    hints = typing.get_type_hints(fn, include_extras=True)
    made = Annotated[CallToolResult, hints["return"]]
    signature = inspect.signature(fn)
    parameters = [
        p.replace(annotation=hints.get(p.name, p.annotation)) for p in signature.parameters.values()
    ]
    answer.__signature__ = signature.replace(parameters=parameters, return_annotation=made)  # type: ignore[attr-defined]
    answer.__annotations__ = {**hints, "return": made}
    return answer


def _result(content: dict[str, Any], *, is_error: bool = False) -> CallToolResult:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=content, is_error=is_error
    )
