"""Where a thought ends: for every form, whether the prompt opened it or the policy did."""

from __future__ import annotations

from typing import Any

import pytest

from lego_harness.proxy.forms.hermes import HermesForm
from lego_harness.proxy.forms.xml import XmlForm
from lego_harness.proxy.parse import parse_reply

FORMS = [HermesForm(), XmlForm()]
CALLS = {
    "Hermes JSON": '<tool_call>\n{"name": "bash", "arguments": {}}\n</tool_call>',
    "XML-style tags": "<tool_call>\n<function=bash>\n</function>\n</tool_call>",
}
both_forms = pytest.mark.parametrize("form", FORMS, ids=list(CALLS))
both_openings = pytest.mark.parametrize("is_open", [False, True], ids=["sampled", "prompted"])


def read(form: Any, text: str, *, is_open: bool) -> tuple[str, str, int]:
    """Reasoning, content and number of calls of a reply whose thought holds `text` first."""
    opened = text if is_open else f"<think>\n{text}"
    parsed = parse_reply(opened, form, thought_is_open=is_open)
    return parsed.reasoning, parsed.content, len(parsed.calls)


@both_forms
@both_openings
def test_a_closed_thought_is_set_apart(form: Any, is_open: bool) -> None:
    call = CALLS[form.name]
    assert read(form, "Hm.\n</think>\n\nYes.", is_open=is_open) == ("Hm.", "Yes.", 0)
    assert read(form, f"Hm.\n</think>\n\nYes.\n{call}", is_open=is_open) == ("Hm.", "Yes.", 1)
    assert read(form, "\n</think>\n\nYes.", is_open=is_open) == ("", "Yes.", 0)
    assert read(form, "Hm.</think>", is_open=is_open) == ("Hm.", "", 0)
    assert read(form, " one \n two</think>  Yes. ", is_open=is_open) == (" one \n two", "  Yes. ", 0)


@both_forms
@both_openings
def test_an_unfinished_thought_is_all_there_is(form: Any, is_open: bool) -> None:
    assert read(form, "never closed", is_open=is_open) == ("never closed", "", 0)
    assert read(form, "", is_open=is_open) == ("", "", 0)


@both_forms
@both_openings
def test_a_call_ends_an_open_thought(form: Any, is_open: bool) -> None:
    call = CALLS[form.name]
    assert read(form, f"Hm.\n{call}", is_open=is_open) == ("Hm.", "", 1)
    assert read(form, f"Hm.\n{call}\nand </think> Yes.", is_open=is_open) == ("Hm.", "and </think> Yes.", 1)


@both_forms
@both_openings
def test_a_mention_of_the_tag_is_a_thought_if_the_thought_is_closed(form: Any, is_open: bool) -> None:
    call = CALLS[form.name]
    thought = "I write <tool_call> first."
    assert read(form, f"{thought}\n</think>\n\n{call}", is_open=is_open) == (thought, "", 1)


@both_forms
@both_openings
def test_a_broken_call_in_an_open_thought_stays_visible(form: Any, is_open: bool) -> None:
    broken = '<tool_call>\n{"name": "bash", </tool_call>'
    assert read(form, f"Hm.\n{broken}", is_open=is_open) == ("Hm.", broken, 0)


@both_forms
def test_a_thought_stands_first_or_is_text(form: Any) -> None:
    for text in ("Yes. <think>\nHm.\n</think>", "</think>\n\nYes.", "Yes. </think> No."):
        assert parse_reply(text, form).content == text
    parsed = parse_reply(" \n<think>\nHm.\n</think>\n\nYes.", form)
    assert (parsed.reasoning, parsed.content) == ("Hm.", "Yes.")


@both_forms
def test_a_thought_that_the_policy_opens_again_is_one_thought(form: Any) -> None:
    parsed = parse_reply("<think>\nHm.\n</think>\n\nYes.", form, thought_is_open=True)
    assert (parsed.reasoning, parsed.content) == ("Hm.", "Yes.")
