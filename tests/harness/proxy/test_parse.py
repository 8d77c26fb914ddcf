"""Reading sampled text: calls where they are valid, visible text where they are not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.proxy.parse import ParsedReply, parse_reply
from lego_harness.proxy.render import Renderer
from tests.support.checkpoint import write_checkpoint

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(max_size=6), JSON, max_size=3)


@pytest.fixture(scope="module")
def same_renderer(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return Renderer.load(write_checkpoint(tmp_path_factory.mktemp("model")), max_model_len=4096)


def read(text: str) -> tuple[str, list[tuple[str, Any]]]:
    parsed = parse_reply(text)
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
        '<tool_call>\n{"name": "a", "arguments": {"x": "\\ud800"}}\n</tool_call>',
        '<tool_call>\n{"name": "a", "arguments": {}} and more\n</tool_call>',
        "<tool_call>" + "[" * 100_000,
        "<tool_call><tool_call></tool_call>",
        "</tool_call>",
    ],
)
def test_a_broken_call_stays_visible(broken: str) -> None:
    assert read(broken) == (broken, [])
    good = '<tool_call>\n{"name": "ok", "arguments": {}}\n</tool_call>'
    assert read(f"{broken}\n{good}")[1] == [("ok", {})]


def test_reasoning_is_set_apart() -> None:
    parsed = parse_reply("<think>\nHm.\n</think>\n\nYes.")
    assert parsed == ParsedReply(reasoning="Hm.", content="Yes.", calls=())
    assert parse_reply("<think>\nnever closed").content == "<think>\nnever closed"


@given(
    text=st.lists(
        st.sampled_from(
            ["<tool_call>", "</tool_call>", "{", "}", '"name"', ":", "<think>", "</think>", "\n", "a"]
        )
    ).map("".join)
)
def test_anything_can_be_read(text: str) -> None:
    parse_reply(text)


@given(
    name=st.from_regex(r"[a-zA-Z_][\w-]{0,10}", fullmatch=True),
    calls=st.lists(ARGUMENTS, min_size=1, max_size=3),
)
def test_what_a_policy_is_taught_is_what_is_read(
    same_renderer: Renderer, name: str, calls: list[dict[str, Any]]
) -> None:
    message = {
        "role": "assistant",
        "content": "Let me.",
        "tool_calls": [
            {"type": "function", "id": "", "function": {"name": name, "arguments": a}} for a in calls
        ],
    }
    text = same_renderer.vocabulary.decode(same_renderer.encode_assistant(message)).removesuffix("<|im_end|>")
    assert read(text) == ("Let me.", [(name, arguments) for arguments in calls])
