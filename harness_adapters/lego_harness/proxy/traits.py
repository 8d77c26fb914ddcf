"""What a chat template does, found by rendering probes and never by a model's name.

Invariant: a template that comes through has one opening for every assistant turn, shows all that a
conversation holds, writes calls in a form that reads them back, and renders what follows a turn from
the new messages alone; any other is refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from lego_harness.errors import SetupError, UsageError
from lego_harness.proxy.demands import demand_all_is_shown, demand_continuation, demand_turns
from lego_harness.proxy.forms.base import Form
from lego_harness.proxy.forms.hermes import HermesForm
from lego_harness.proxy.forms.xml import XmlForm
from lego_harness.proxy.parse import parse_reply
from lego_harness.proxy.probes import ANSWER, ASK, CALL, THOUGHT, TOOL, Message, call_turn, shown
from lego_harness.proxy.template import ChatTemplate
from lego_harness.proxy.vocabulary import END_OF_TURN

FORMS: tuple[Form, ...] = (HermesForm(), XmlForm())
OPEN_THOUGHT, NO_THOUGHT = "<think>\n", "<think>\n\n</think>\n\n"
REMINDER: Message = {"role": "system", "content": "a-reminder"}


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateTraits:
    """How one template, with its options, writes."""

    header: str
    """Opens every assistant turn: `<|im_start|>assistant` and a line break."""
    generation_prompt: str
    """What a reply is sampled behind: the header, then perhaps an open or an empty thought."""
    form: Form
    shows_reasoning: bool
    """Whether the newest turn is shown with its reasoning."""
    takes_late_system: bool
    """Whether a system message may stand behind the first message."""
    takes_text_arguments: bool
    """Whether a call whose arguments are no object can be shown."""

    @property
    def thought_is_open(self) -> bool:
        """Whether the policy begins inside a thought."""
        return self.generation_prompt.endswith(OPEN_THOUGHT)


def study(template: ChatTemplate) -> TemplateTraits:
    """The traits of a template; raises SetupError when it cannot be used."""
    try:
        header, generation_prompt = _prompts(template)
        demand_turns(template, header)
        demand_all_is_shown(template)
        demand_continuation(template)
        return TemplateTraits(
            header=header,
            generation_prompt=generation_prompt,
            form=_form(template),
            shows_reasoning=_shows(template, THOUGHT, ASK, call_turn("c0", reasoning_content=THOUGHT)),
            takes_late_system=_shows(template, REMINDER["content"], ASK, REMINDER, ASK),
            takes_text_arguments=_shows(template, "no-object", ASK, call_turn("c0", arguments="{no-object")),
        )
    except UsageError as error:
        raise SetupError(f"{error}; it must render system, user, assistant and tool messages") from error


def _prompts(template: ChatTemplate) -> tuple[str, str]:
    """The header of assistant turns and the generation prompt."""
    prompt = shown(template, ASK, is_asked=True).removeprefix(shown(template, ASK))
    line, newline, thought = prompt.partition("\n")
    if not newline or thought not in ("", OPEN_THOUGHT, NO_THOUGHT):
        raise SetupError(
            f"the chat template's generation prompt is {prompt!r}, expected a line such as "
            f"<|im_start|>assistant, then nothing, an open <think> or an empty thought"
        )
    return line + newline, prompt


def _form(template: ChatTemplate) -> Form:
    """The form that reads back what the template writes."""
    text = shown(template, ASK, call_turn("c0"))
    written = text[text.rindex(ANSWER) : text.rindex(END_OF_TURN)]
    for form in FORMS:
        read = parse_reply(written, form, [TOOL])
        if read.content == ANSWER and read.calls == (CALL,):
            return form
    names = " or ".join(form.name for form in FORMS)
    raise SetupError(f"the chat template writes a tool call as {written!r}, which is not {names}")


def _shows(template: ChatTemplate, wanted: str, *messages: Message) -> bool:
    try:
        return wanted in shown(template, *messages)
    except UsageError:
        return False
