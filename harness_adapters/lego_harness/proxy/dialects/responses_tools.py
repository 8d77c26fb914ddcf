"""The tools of OpenAI Responses ↔ plain functions, and the names that calls of them have.

    on the wire                                  for the policy
    {type: function, name: f}                    f, as it is
    {type: custom, name: f, format: …}           f(input: string), the format in words
    {type: namespace, name: n, tools: [f, …]}    n.f, …

No function's name holds a dot, so a name of the policy's says which tool is meant. Refused: tools
that a server runs, because nobody would run them. Left out: those that clients offer unasked; the
policy does not learn of them, so that no call of one is ever missed.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from lego_harness.proxy.conversation import CallForm
from lego_harness.proxy.dialects.base import MAX_NAME, FreeJson, Wire, function, validated_items
from lego_harness.proxy.dialects.folding import Offer
from lego_harness.proxy.refusal import Refusal

UNASKED = ("web_search", "web_search_preview", "image_generation")
"""Codex offers these whatever the provider can do."""


class Format(Wire):
    type: str = "text"
    syntax: str | None = None
    definition: str | None = None


class OfferedTool(Wire):
    type: str
    name: str = ""
    description: str | None = None
    parameters: FreeJson | None = None
    format: Format | None = None
    tools: list[Any] | None = None


TOOLS = TypeAdapter(list[OfferedTool])


def canonical_name(name: str, namespace: str | None) -> str:
    """What the policy calls a tool."""
    return f"{namespace}.{name}" if namespace else name


def fold_tools(wire: Any, where: str = "tools", namespace: str = "") -> list[Offer]:
    """The tools of a list on offer; raises Refusal."""
    if wire is None:
        return []
    offers: list[Offer] = []
    for index, tool in enumerate(validated_items(TOOLS, wire, where)):
        if tool.type not in UNASKED and not tool.name:
            raise Refusal(f"{where}.{index}: a tool of type {tool.type[:MAX_NAME]!r} without a name")
        if tool.type == "namespace" and not namespace:
            offers += fold_tools(tool.tools, f"{where}.{index}.tools", tool.name)
        elif tool.type in ("function", "custom"):
            offers.append(_offer(tool, namespace))
        elif tool.type not in UNASKED:
            raise Refusal(
                f"{where}.{index}: a tool of type {tool.type[:MAX_NAME]!r} is run by a server, or "
                "called in a form of its own; only functions, custom tools and namespaces of them are served"
            )
    return offers


def _offer(tool: OfferedTool, namespace: str) -> Offer:
    is_text = tool.type == "custom"
    parameters = _text_parameters(tool.format) if is_text else tool.parameters
    form = CallForm(name=tool.name, namespace=namespace, is_text=is_text) if is_text or namespace else None
    name = canonical_name(tool.name, namespace)
    return Offer(tool=function(name, tool.description, parameters), form=form)


def _text_parameters(form: Format | None) -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string"}
    if form and form.definition:
        text["description"] = f"Text that fits this {form.syntax or form.type} grammar:\n{form.definition}"
    return {"type": "object", "properties": {"input": text}, "required": ["input"]}
