"""Reading sampled text in Hermes form: calls where they are valid, visible text where they are not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.proxy.forms.hermes import HermesForm
from lego_harness.proxy.forms.xml import XmlForm
from lego_harness.proxy.parse import parse_reply

FORMS = [HermesForm(), XmlForm()]
TAGS = [
    "<tool_call>",
    "</tool_call>",
    "<think>",
    "</think>",
    "<function=",
    ">",
    "</function>",
    "<parameter=",
    "</parameter>",
]
FRAGMENTS = [*TAGS, "{", "}", '"name"', ":", "\n", "a", "\ufffd"]


def read(text: str) -> tuple[str, list[tuple[str, Any]]]:
    parsed = parse_reply(text, HermesForm())
    assert not parsed.reasoning
    return parsed.content, [(call["name"], call["arguments"]) for call in parsed.calls]


def test_text_alone_is_content_verbatim() -> None:
    assert read("\n Hi. \n") == ("\n Hi. \n", [])
    assert read("") == ("", [])


def test_calls_and_the_text_around_them() -> None:
    text = 'First.\n<tool_call>\n{"name": "a", "arguments": {"x": 1}}\n</tool_call>\n'
    text += '<tool_call>\n{"name": "b", "arguments": {}}\n</tool_call>\nLast.'
    assert read(text) == ("First.\nLast.", [("a", {"x": 1}), ("b", {})])


def test_a_closing_tag_inside_an_argument_closes_nothing() -> None:
    text = '<tool_call>\n{"name": "bash", "arguments": {"command": "echo \'</tool_call>\'"}}\n</tool_call>'
    assert read(text) == ("", [("bash", {"command": "echo '</tool_call>'"})])


def test_the_end_of_the_turn_closes_the_last_call() -> None:
    assert read('<tool_call>\n{"name": "a", "arguments": {}}\n') == ("", [("a", {})])


def test_of_equal_keys_the_last_one_holds() -> None:
    assert read('<tool_call>{"name": "a", "arguments": {"x": 1, "x": 2}}</tool_call>') == (
        "",
        [("a", {"x": 2})],
    )


@pytest.mark.parametrize(
    "broken",
    [
        '<tool_call>\n{"name": "a", "arguments": {"x": 1}\n</tool_call>',
        '<tool_call>\n{"name": "a"}\n</tool_call>',
        '<tool_call>\n{"name": "", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "a", "arguments": "x"}\n</tool_call>',
        '<tool_call>\n["a", {}]\n</tool_call>',
        '<tool_call>\n{"name": "a", "arguments": {"x": NaN}}\n</tool_call>',
        '<tool_call>\n{"name": "a", "arguments": {"x": 1e999}}\n</tool_call>',
        '<tool_call>\n{"name": "a", "arguments": {"x": ' + "9" * 5000 + "}}\n</tool_call>",
        '<tool_call>\n{"name": "a", "arguments": {"x": "\\ud800"}}\n</tool_call>',
        '<tool_call>\n{"name": "a", "arguments": {}} and more\n</tool_call>',
        "<tool_call>\n<function=a>\n</function>\n</tool_call>",
        '<tool_call>\n{"name": "a", "arguments": {"x": ' + "[" * 150 + "]" * 150 + "}}\n</tool_call>",
        "<tool_call>" + "[" * 100_000,
        "<tool_call><tool_call></tool_call>",
        "</tool_call>",
    ],
)
def test_a_broken_call_stays_visible(broken: str) -> None:
    assert read(broken) == (broken, [])
    good = '<tool_call>\n{"name": "ok", "arguments": {}}\n</tool_call>'
    assert read(f"{broken}\n{good}") == (broken, [("ok", {})])


@pytest.mark.parametrize("form", FORMS)
@given(
    text=st.lists(st.sampled_from(FRAGMENTS)).map("".join),
    is_open=st.booleans(),
)
def test_anything_can_be_read_and_nothing_is_invented(form: Any, text: str, is_open: bool) -> None:
    parsed = parse_reply(text, form, thought_is_open=is_open)
    assert set(parsed.reasoning + parsed.content) <= set(text) | {"\n"}
    if not parsed.calls and not parsed.reasoning and "think>" not in text:
        assert parsed.content == text or is_open
