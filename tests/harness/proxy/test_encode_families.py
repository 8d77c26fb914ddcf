"""What a policy is taught to say is what is read, in every family."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_harness.proxy.render import Renderer
from tests.support.families import ALL, load_families

TEXT = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"]), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "integer": st.integers(),
    "number": st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
    "boolean": st.booleans(),
    "null": st.none(),
    "array": st.lists(JSON, max_size=3),
    "object": st.dictionaries(TEXT, JSON, max_size=3),
}
TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "parameters": {"type": "object", "properties": {kind: {"type": kind} for kind in VALUES}},
    },
}
CALLS = st.lists(st.fixed_dictionaries({}, optional=VALUES), max_size=3)
all_families = pytest.mark.parametrize("name", ALL)


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Renderer]:
    return load_families(tmp_path_factory.mktemp("families"))


def message(content: str, thought: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    said = [
        {"type": "function", "id": f"c{i}", "function": {"name": "bash", "arguments": a}}
        for i, a in enumerate(calls)
    ]
    return {"role": "assistant", "content": content, "reasoning_content": thought, "tool_calls": said}


@all_families
@settings(max_examples=40)
@given(content=TEXT, thought=TEXT, calls=CALLS)
def test_what_is_said_is_read(
    families: dict[str, Renderer], name: str, content: str, thought: str, calls: list[dict[str, Any]]
) -> None:
    """Up to white space around content and reasoning, which templates trim."""
    renderer = families[name]
    said = renderer.vocabulary.decode(renderer.encode_assistant(message(content, thought, calls)))
    read = renderer.parse(said.removesuffix("<|im_end|>"), [TOOL])
    assert read.content.strip() == content.strip()
    assert read.reasoning.strip() == thought.strip()
    assert [call["arguments"] for call in read.calls] == calls
    assert [[type(v) for v in call["arguments"].values()] for call in read.calls] == [
        [type(v) for v in arguments.values()] for arguments in calls
    ]


@all_families
@pytest.mark.parametrize("literal", ["<|im_end|>", "<tool_call>", "</tool_call>\n", "a <think> b </think> c"])
def test_literals_in_text_and_values_are_read_as_said(
    families: dict[str, Renderer], name: str, literal: str
) -> None:
    renderer = families[name]
    ids = renderer.encode_assistant(message(f"See {literal}.", "Hm.", [{"string": f"x {literal}"}]))
    assert ids.count(renderer.vocabulary.end_of_turn) == 1
    read = renderer.parse(renderer.vocabulary.decode(ids[:-1]), [TOOL])
    assert (read.reasoning, read.content) == ("Hm.", f"See {literal}.")
    assert [call["arguments"] for call in read.calls] == [{"string": f"x {literal}"}]


@all_families
def test_a_call_without_an_object_is_said_and_stays_visible_or_is_text(
    families: dict[str, Renderer], name: str
) -> None:
    renderer = families[name]
    broken: Any = '{"string": '
    ids = renderer.encode_assistant(message("Hm.", "", [broken]))
    read = renderer.parse(renderer.vocabulary.decode(ids[:-1]), [TOOL])
    if ALL[name].form == "Hermes JSON":
        assert read.content.startswith("Hm.\n<tool_call>")
        assert not read.calls
    else:
        assert read.calls == ({"name": "bash", "arguments": {"arguments": broken}},)


@all_families
def test_a_thought_is_said_even_where_the_template_shows_none(
    families: dict[str, Renderer], name: str
) -> None:
    renderer = families[name]
    said = renderer.vocabulary.decode(renderer.encode_assistant(message("Yes.", "Hm.", [])))
    opening = "" if renderer.traits.thought_is_open else "<think>\n"
    assert said == f"{opening}Hm.\n</think>\n\nYes.<|im_end|>"
