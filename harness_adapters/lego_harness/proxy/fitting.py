"""Messages → messages that a template can show, nothing lost.

what stands there                               what the template gets
content that is no text                         refused: templates render it as nothing
a role it does not know                         refused: templates leave it out (`developer` is system)
a system message behind the first one, where    joined to the first one if it stands right behind it,
the template refuses it                         else a user turn with the same text
a call whose arguments are text                 the object they are, if they are one; else the text,
                                                or `{"arguments": text}` where only objects are shown
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lego_harness.errors import UsageError
from lego_harness.proxy.strict_json import read_object
from lego_harness.proxy.traits import TemplateTraits

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}

Message = Mapping[str, Any]


def fitted(
    messages: Sequence[Mapping[str, object]], traits: TemplateTraits, *, is_opening: bool
) -> list[Message]:
    """The messages as the template should get them; `is_opening` when the first one begins it all."""
    fit: list[Message] = []
    for message in map(_checked, messages):
        if message["role"] != "system" or traits.takes_late_system or (is_opening and not fit):
            fit.append(_with_objects(message, traits))
        elif is_opening and len(fit) == 1 and fit[0]["role"] == "system":
            fit[0] = {**fit[0], "content": f"{fit[0]['content']}\n\n{message['content']}"}
        else:
            fit.append({**message, "role": "user"})
    return fit


def _checked(message: Message) -> Message:
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise UsageError(f"a message has role {role!r}, expected one of {', '.join(ROLES)}")
    if not isinstance(content, str | None):
        raise UsageError(f"a {role} message holds content of type {type(content).__name__}, expected text")
    return {**message, "role": ROLES[role], "content": content or ""}


def _with_objects(message: Message, traits: TemplateTraits) -> Message:
    """The message, text arguments of its calls replaced."""
    calls = message.get("tool_calls")
    if not calls or all(isinstance(call["function"]["arguments"], Mapping) for call in calls):
        return message
    return {**message, "tool_calls": [_with_object(call, traits) for call in calls]}


def _with_object(call: Message, traits: TemplateTraits) -> Message:
    arguments = call["function"]["arguments"]
    if isinstance(arguments, str):
        as_text = arguments if traits.takes_text_arguments else {"arguments": arguments}
        as_object = read_object(arguments)
        arguments = as_text if as_object is None else as_object
    return {**call, "function": {**call["function"], "arguments": arguments}}
