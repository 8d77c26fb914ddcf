"""Messages → token ids, whole or as the part that follows a sampled turn.

Owns the canonical tokenisation. Text is cut before each assistant reply, because a reply is sampled
behind the generation prompt and never merges with it; each piece is encoded in one go. Invariant:
for histories without rewrites, `render(all)` = `render_opening(first)` + `generation_prompt` +
reply + `render_delta(rest)` + `generation_prompt` + …, so the cost of a call grows with its new text only. Never re-renders what was sampled.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from lego_harness.errors import SetupError
from lego_harness.proxy.parse import ParsedReply, parse_reply
from lego_harness.proxy.template import ChatTemplate
from lego_harness.proxy.vocabulary import END_OF_TURN, Vocabulary

Messages = Sequence[Mapping[str, object]]
STAND_IN = {"role": "user", "content": "."}


class Renderer:
    """The tokenizer and chat template of one checkpoint."""

    def __init__(self, vocabulary: Vocabulary, template: ChatTemplate, *, max_model_len: int) -> None:
        self.vocabulary = vocabulary
        self.max_model_len = max_model_len
        self._template = template
        self._reply_header = _reply_header(template)
        self._generation_prompt = self._encode(self._reply_header)
        self.render_delta([{"role": "user", "content": "."}])  # a template that cannot is refused now

    @classmethod
    def load(cls, model_dir: Path, *, max_model_len: int) -> Renderer:
        """Read a checkpoint directory as `save_pretrained` writes it; raises SetupError."""
        return cls(Vocabulary.load(model_dir), ChatTemplate.load(model_dir), max_model_len=max_model_len)

    @property
    def generation_prompt(self) -> list[int]:
        """Ids that the policy's reply is sampled behind."""
        return list(self._generation_prompt)

    def render(
        self, messages: Messages, tools: Messages = (), *, add_generation_prompt: bool = True
    ) -> list[int]:
        """Ids of a whole conversation. Raises UsageError when the template refuses it."""
        return self._encode(self._text(messages, tools, add_generation_prompt=add_generation_prompt))

    def render_opening(self, messages: Messages, tools: Messages = ()) -> list[int]:
        """Ids of everything before the first assistant turn, without the generation prompt."""
        return self.render(messages, tools, add_generation_prompt=False)

    def render_delta(self, added: Messages) -> list[int]:
        """Ids between a turn's end-of-turn token and the next turn, given the new messages.

        Rendered behind a stand-in conversation: templates show tools before the first message only,
        and what was sampled stays as it was sampled.
        """
        sentinel = secrets.token_hex(16)
        calls = [_stand_in_call(m["tool_call_id"]) for m in added if "tool_call_id" in m]
        reply = {"role": "assistant", "content": sentinel, **({"tool_calls": calls} if calls else {})}
        text = self._text([STAND_IN, reply, *added], (), add_generation_prompt=False)
        _, _, tail = text.partition(sentinel)
        _, end, delta = tail.partition(END_OF_TURN)
        if not end:
            raise SetupError(f"the chat template does not end an assistant turn with {END_OF_TURN}")
        return self._encode(delta)

    def render_turn(self, message: Mapping[str, object]) -> list[int]:
        """Ids of an assistant turn that was not sampled here, its header and end-of-turn token included."""
        return self._encode(self._reply_header) + self.encode_assistant(message)

    def encode_assistant(self, message: Mapping[str, object]) -> list[int]:
        """Ids a policy should sample for this reply, the end-of-turn token included."""
        text = self._text([STAND_IN, message], (), add_generation_prompt=False)
        reply = text.rpartition(self._reply_header)[2]
        return self._encode(reply[: reply.rindex(END_OF_TURN) + len(END_OF_TURN)])

    def parse(self, text: str, tools: Messages = ()) -> ParsedReply:
        """What a sampled text, its end-of-turn token removed, says."""
        return parse_reply(text)

    def _text(self, messages: Messages, tools: Messages, *, add_generation_prompt: bool) -> str:
        """Rendered text; control literals of the conversation itself stay marked."""
        marked = [self.vocabulary.mark(m) for m in messages]
        marked_tools = [self.vocabulary.mark(t) for t in tools]
        return self._template.render(marked, marked_tools, add_generation_prompt=add_generation_prompt)

    def _encode(self, text: str) -> list[int]:
        pieces = text.split(self._reply_header)
        headed = [piece + self._reply_header for piece in pieces[:-1]]
        return [token for piece in (*headed, pieces[-1]) for token in self.vocabulary.encode(piece)]


def _reply_header(template: ChatTemplate) -> str:
    """What opens every assistant turn: the generation prompt's first line."""
    without = template.render([STAND_IN], (), add_generation_prompt=False)
    header = template.render([STAND_IN], (), add_generation_prompt=True).removeprefix(without)
    if "\n" not in header:
        raise SetupError(
            f"the chat template's generation prompt is {header!r}, expected a line such as <|im_start|>assistant"
        )
    return header[: header.index("\n") + 1]


def _stand_in_call(call_id: object) -> dict[str, object]:
    return {"type": "function", "id": call_id, "function": {"name": "f", "arguments": {}}}
