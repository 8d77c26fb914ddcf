"""One generation → the reply it means.

Owns the ids that replies and tool calls travel under. Invariant: they are unique in the run and the
same in a rerun, because harnesses may show them to the policy; harnesses bring call ids back
unchanged, so they are what turns are known by. Changes no token.
"""

from __future__ import annotations

import hashlib
import time
from itertools import takewhile

from lego_harness.proxy.conversation import FinishReason, Message, Reply, Request
from lego_harness.proxy.forms.base import CALL_OPEN
from lego_harness.proxy.parse import ParsedReply
from lego_harness.proxy.render import Renderer
from lego_harness.types import Generation

CALL_ID_PREFIX = {"chat": "call_", "messages": "toolu_", "responses": "call_"}


def read_reply(
    request: Request, generation: Generation, renderer: Renderer, *, identity: str, num_context: int
) -> Reply:
    """The reply to `request`; `identity` names the turn uniquely in the run."""
    is_stopped = int(generation.ids[-1]) in renderer.vocabulary.stop_ids
    said = generation.ids[:-1] if is_stopped else generation.ids
    text = renderer.vocabulary.decode(said.tolist())
    parsed = renderer.parse(text, request.tools, reads_calls=not _reads_them_itself(request))
    finish: FinishReason = "tool_calls" if parsed.calls else "stop"
    return Reply(
        id=_identifier(identity, "reply"),
        created=int(time.time()),
        model=request.model,
        message=_message(parsed, CALL_ID_PREFIX[request.dialect], identity),
        finish_reason=finish if is_stopped else "length",
        prompt_tokens=num_context,
        completion_tokens=len(generation.ids),
        call_forms=request.call_forms,
    )


def _reads_them_itself(request: Request) -> bool:
    """Whether the harness offers no tools but asks for calls in tags, which it then looks for in the text."""
    opening = takewhile(lambda message: message["role"] != "assistant", request.messages)
    return not request.tools and any(CALL_OPEN in message["content"] for message in opening)


def _message(parsed: ParsedReply, prefix: str, identity: str) -> Message:
    message: Message = {"role": "assistant", "content": parsed.content}
    if parsed.reasoning:
        message["reasoning_content"] = parsed.reasoning
    if parsed.calls:
        message["tool_calls"] = [
            {"type": "function", "id": prefix + _identifier(identity, str(i)), "function": call}
            for i, call in enumerate(parsed.calls)
        ]
    return message


def _identifier(identity: str, what: str) -> str:
    return hashlib.sha256(f"{identity}/{what}".encode()).hexdigest()[:24]
