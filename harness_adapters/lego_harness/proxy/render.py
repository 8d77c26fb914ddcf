"""Messages → token ids: a whole conversation, or the pieces that a session puts around sampled turns.

    context = opening + generation prompt + [sampled] + delta + generation prompt + [sampled] + delta …

Owns the canonical tokenisation. Invariants: a piece depends on its own messages only, so the cost of a
call grows with its new text; pieces are cut where something was or could have been sampled (behind a
generation prompt, behind an end of turn), each is encoded in one go, and what was sampled is never
encoded again, whatever equal text would become. For histories without rewrites the pieces are the
template's own rendering of the whole. Where templates break that by themselves, the rule is ours:

    the template                                        we
    drops old thoughts at a new user message            keep what was sampled
    drops an empty thought behind a newer turn          keep what was sampled
    shows no empty thought where the prompt had one     keep the prompt as it was
    shows an empty thought where none was sampled       keep what was sampled
    trims content and reasoning                         trim nothing sampled; new messages as it does
    moves or drops text behind a call                   keep what was sampled
    shows parallel results as one user turn             as it does, for results that come together
    counts user text in <tool_response> as a result     count it as a user's
    splits a turn's text at a literal </think>          leave text as it is
    refuses late system messages, roles, arguments      `fitting.py`
    refuses a conversation without a user message       an opening is rendered before a stand-in question
    writes `# Tools` before or behind the system text   as it does

A turn that was not sampled here is shown as the template shows it while it is history: before its
results if it has calls, else before a new question.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from lego_harness.errors import SetupError, UsageError
from lego_harness.proxy.fitting import fitted
from lego_harness.proxy.parse import THINK_CLOSE, THINK_OPEN, ParsedReply, parse_reply
from lego_harness.proxy.probes import ANSWER, CALL, THOUGHT, TOOL, call_turn
from lego_harness.proxy.template import ChatTemplate
from lego_harness.proxy.traits import study
from lego_harness.proxy.vocabulary import END_OF_TURN, Vocabulary
from lego_harness.types import TokenIds

Messages = Sequence[Mapping[str, object]]
STAND_IN = {"role": "user", "content": "."}
MAX_CHARS_PER_TOKEN = 16
"""Nobody writes a text whose tokens are longer on average."""
MAX_KNOWN, MAX_KNOWN_CHARS = 64, 2**18
"""Turns of openings whose ids are remembered, and how long each may be."""
_TURN = re.compile(f".*?{re.escape(END_OF_TURN)}|.+", re.DOTALL)


class TooLong(UsageError):
    """More text than the model's context can hold: it is not worth the time to tokenise it."""


class Renderer:
    """The tokenizer and chat template of one checkpoint."""

    def __init__(self, vocabulary: Vocabulary, template: ChatTemplate, *, max_model_len: int) -> None:
        self.vocabulary = vocabulary
        self.max_model_len = max_model_len
        self.traits = study(template)
        self._template = template
        openings = (self.traits.generation_prompt, self.traits.header)  # the longer one first
        self._openings = re.compile("|".join(map(re.escape, openings)))
        self._turn_ids = lru_cache(MAX_KNOWN)(self._encode_turn)
        self._generation_prompt = self._encode(self.traits.generation_prompt)
        self._demand_text_as_it_is()
        self._demand_that_it_reads_what_it_says()

    @classmethod
    def load(
        cls, model_dir: Path, *, max_model_len: int, template_options: Mapping[str, object] | None = None
    ) -> Renderer:
        """Read a checkpoint directory as `save_pretrained` writes it; raises SetupError.

        `template_options` are the template's own switches, such as `enable_thinking`; one that it does not
        read is a UsageError.
        """
        template = ChatTemplate.load(model_dir, template_options or {})
        return cls(Vocabulary.load(model_dir), template, max_model_len=max_model_len)

    @property
    def generation_prompt(self) -> list[int]:
        """Ids that every reply is sampled behind."""
        return list(self._generation_prompt)

    def render(
        self, messages: Messages, tools: Messages = (), *, add_generation_prompt: bool = True
    ) -> list[int]:
        """Ids of a whole conversation as the template shows it. Raises UsageError when it refuses."""
        fit = fitted(messages, self.traits, is_opening=True)
        return self._encode(self._text(fit, tools, add_generation_prompt=add_generation_prompt))

    def render_opening(self, messages: Messages, tools: Messages = ()) -> list[int]:
        """Ids of everything before the first assistant turn, without the generation prompt."""
        fit = fitted(messages, self.traits, is_opening=True)
        if any(message["role"] == "user" for message in fit):
            text = self._text(fit, tools)
        else:
            once, twice = self._text([*fit, STAND_IN], tools), self._text([*fit, STAND_IN, STAND_IN], tools)
            text = once.removesuffix(twice.removeprefix(once))
        return self._encode_opening(text)

    def render_delta(self, added: Messages) -> list[int]:
        """Ids between a turn's end-of-turn token and the next turn, given the new messages.

        Rendered behind a stand-in conversation: templates show tools before the first message only.
        """
        fit = fitted(added, self.traits, is_opening=False)
        calls = [_stand_in_call(m.get("tool_call_id")) for m in fit if m["role"] == "tool"]
        reply = {"role": "assistant", "content": ".", **({"tool_calls": calls} if calls else {})}
        return self._encode(self._cut_turn(reply, *fit)[1])

    def render_turn(self, message: Mapping[str, object]) -> list[int]:
        """Ids of an assistant turn that was not sampled here, its header and end-of-turn token included."""
        (turn,) = fitted([message], self.traits, is_opening=False)
        calls = turn.get("tool_calls", [])
        results = [{"role": "tool", "content": "", "tool_call_id": call["id"]} for call in calls]
        return self._encode(self._cut_turn(turn, *(results or [STAND_IN]))[0])

    def encode_assistant(self, message: Mapping[str, object]) -> list[int]:
        """Ids a policy would sample behind the generation prompt to say this, the end of turn included."""
        (turn,) = fitted([message], self.traits, is_opening=False)
        text, prompt = self._cut_turn(turn)[0], self.traits.generation_prompt
        is_behind_prompt = text.startswith(prompt)
        said = text.removeprefix(prompt if is_behind_prompt else self.traits.header)
        return self._encode(self._unshown_thought(turn, is_behind_prompt) + said)

    def parse(self, text: str, tools: Messages = (), *, reads_calls: bool = True) -> ParsedReply:
        """What a sampled text, its end-of-turn token removed, says; calls stay text unless they are read."""
        is_open = self.traits.thought_is_open
        return parse_reply(text, self.traits.form, tools, thought_is_open=is_open, reads_calls=reads_calls)

    def _demand_text_as_it_is(self) -> None:
        text = f"a text that holds {END_OF_TURN}"
        if text not in self.vocabulary.decode(self.render_delta([{"role": "user", "content": text}])):
            raise SetupError("the chat template cuts or rewrites text; expected every message as it is")

    def _demand_that_it_reads_what_it_says(self) -> None:
        ids = self.encode_assistant(call_turn("c0", reasoning_content=THOUGHT))
        said = self.vocabulary.decode(ids).removesuffix(END_OF_TURN)
        read = self.parse(said, [TOOL])
        if read != ParsedReply(reasoning=THOUGHT, content=ANSWER, calls=(CALL,)):
            raise SetupError(f"the chat template writes a turn as {said!r}, which reads as {read}")

    def _unshown_thought(self, turn: Mapping[str, object], is_behind_prompt: bool) -> str:
        """The thought, or its end, that a policy has to say although the template does not show it."""
        reasoning = "" if self.traits.shows_reasoning else turn.get("reasoning_content") or ""
        if self.traits.thought_is_open and not is_behind_prompt:
            return f"{self.vocabulary.mark(reasoning)}\n{THINK_CLOSE}\n\n"
        return f"{THINK_OPEN}\n{self.vocabulary.mark(reasoning)}\n{THINK_CLOSE}\n\n" if reasoning else ""

    def _cut_turn(self, turn: Mapping[str, object], *after: Mapping[str, object]) -> tuple[str, str]:
        """An assistant turn from its header to its end of turn, and the text of `after` behind it."""
        text = self._text([STAND_IN, turn, *after])
        start = text.index(self.traits.header)
        end = text.index(END_OF_TURN, start) + len(END_OF_TURN)
        return text[start:end], text[end:]

    def _text(self, messages: Messages, tools: Messages = (), *, add_generation_prompt: bool = False) -> str:
        """Rendered text; control literals of the conversation itself stay marked."""
        marked = [self.vocabulary.mark(m) for m in messages]
        marked_tools = [self.vocabulary.mark(t) for t in tools]
        text = self._template.render(marked, marked_tools, add_generation_prompt=add_generation_prompt)
        if len(text) > MAX_CHARS_PER_TOKEN * self.max_model_len:
            raise TooLong(f"{len(text)} characters")
        return text

    def _encode_opening(self, text: str) -> list[int]:
        """As `_encode`; most rollouts begin with the turns of another: the system's with its tools, a task."""
        ids: list[int] = []
        for turn in _TURN.findall(text):
            ids += self._turn_ids(turn).tolist() if len(turn) <= MAX_KNOWN_CHARS else self._encode(turn)
        return ids

    def _encode_turn(self, turn: str) -> TokenIds:
        return np.array(self._encode(turn), np.int32)

    def _encode(self, text: str) -> list[int]:
        """Ids of a rendered text, cut behind every opening of an assistant turn."""
        ids: list[int] = []
        at = 0
        for opening in self._openings.finditer(text):
            ids += self.vocabulary.encode(text[at : opening.end()])
            at = opening.end()
        return ids + self.vocabulary.encode(text[at:])


def _stand_in_call(call_id: object) -> dict[str, object]:
    return {"type": "function", "id": call_id, "function": {"name": "f", "arguments": {}}}
