"""A scripted model: what it is shown tells who asks, and it answers with that speaker's next line.

    who        is known by
    sub:a, …   the text before the first reply contains a sub-agent's prompt
    compact    the last question wants text only; or there are no tools, and a summary is wanted
    side       no tools on offer
    main       everything else

Owns that table, for contexts rendered by `byte_tokenizer`. Knows no harness by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from lego_harness.proxy.conversation import Message
from lego_harness.proxy.render import Renderer
from lego_harness.types import GenerateRequest
from lego_harness.wire.scenarios import Script
from lego_harness.wire.scripted import Line

_QUESTION = re.compile(r"<\|im_start\|>user\n(.*?)<\|im_end\|>", re.DOTALL)
_SUB = re.compile(r"\[\[(SUB):(\w)\]\]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Spoken:
    """One line that was said."""

    who: str
    step: int
    message: Message


class Actor:
    """Says the lines of a script."""

    def __init__(self, script: Script, renderer: Renderer) -> None:
        self._script, self._renderer = script, renderer
        self._next: dict[str, int] = {}
        self._spoken: list[Spoken] = []

    def directs(self, request: GenerateRequest) -> Line:
        """The line for a call."""
        who = who_asks(self._renderer.vocabulary.decode(request.context_ids.tolist()))
        lines = self._script.get(who) or self._script["main"]
        step = self._next.get(who, 0)
        self._next[who] = step + 1
        line = lines[min(step, len(lines) - 1)]
        self._spoken.append(Spoken(who=who, step=step, message=line.message))
        return line

    def claim(self, said: Message) -> Spoken | None:
        """Which line a reply was, each only once; None for a reply that was not scripted."""
        found = next((one for one in self._spoken if _gist(one.message) == _gist(said)), None)
        if found is not None:
            self._spoken.remove(found)
        return found


def who_asks(context: str) -> str:
    """See the table."""
    opening = context.partition("<|im_start|>assistant")[0]
    last = next(reversed(_QUESTION.findall(context)), "")
    has_tools = "\n<tools>\n" in context.partition("<|im_end|>")[0]
    if found := _SUB.search(opening):
        return f"sub:{found.group(2)}"
    if "TEXT ONLY" in last or (not has_tools and "summar" in context.lower()):
        return "compact"
    return "main" if has_tools else "side"


def _gist(message: Message) -> tuple[str, list[object]]:
    calls = [call["function"] for call in message.get("tool_calls", [])]
    return message["content"].strip(), [*calls]
