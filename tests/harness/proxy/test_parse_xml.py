"""Reading sampled text in XML-style form: values as the tool declares them, broken calls visible."""

from __future__ import annotations

from typing import Any

import pytest

from lego_harness.proxy.forms.xml import XmlForm
from lego_harness.proxy.parse import parse_reply

EDIT = {
    "type": "function",
    "function": {
        "name": "edit",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "integer"},
                "ratio": {"type": "number"},
                "all": {"type": "boolean"},
                "edits": {"type": "array", "items": {"type": "object"}},
                "place": {"type": "object"},
                "maybe": {"type": ["string", "null"]},
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
                "loose": {"anyOf": [{"type": "string"}, {"type": "number"}]},
                "mode": {"$ref": "#/$defs/Mode"},
                "level": {"enum": [1, 2, 3]},
                "fixed": {"const": True},
                "tree": {"$ref": "#/$defs/Tree"},
                "lost": {"$ref": "#/$defs/Nowhere"},
                "free": {},
            },
            "$defs": {
                "Mode": {"enum": ["1", "2"], "type": "string"},
                "Tree": {"oneOf": [{"type": "null"}, {"$ref": "#/$defs/Tree"}, {"type": "array"}]},
            },
        },
    },
}


def read(text: str, tools: Any = (EDIT,)) -> tuple[str, list[tuple[str, Any]]]:
    parsed = parse_reply(text, XmlForm(), tools)
    assert not parsed.reasoning
    return parsed.content, [(call["name"], call["arguments"]) for call in parsed.calls]


def call(*parameters: tuple[str, str], name: str = "edit") -> str:
    written = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in parameters)
    return f"<tool_call>\n<function={name}>\n{written}</function>\n</tool_call>"


def value(key: str, written: str, tools: Any = (EDIT,)) -> Any:
    (_, arguments), *others = read(call((key, written)), tools)[1]
    assert not others
    assert list(arguments) == [key]
    return arguments[key]


def test_calls_and_the_text_around_them() -> None:
    text = f"First.\n\n{call(('text', 'a'))}\n{call()}\nLast."
    assert read(text) == ("First.\nLast.", [("edit", {"text": "a"}), ("edit", {})])


def test_one_newline_on_each_side_belongs_to_the_tags() -> None:
    assert value("text", "") == ""
    assert value("text", "\n  two\nlines \n\n") == "\n  two\nlines \n\n"
    inline = "<tool_call><function=edit><parameter=text> a </parameter></function></tool_call>"
    assert read(inline) == ("", [("edit", {"text": " a "})])


@pytest.mark.parametrize(
    ("key", "written", "meant"),
    [
        ("text", "5", "5"),
        ("text", "null", "null"),
        ("text", '{"a": 1}', '{"a": 1}'),
        ("text", "größe 😀 <b>&amp;</b>", "größe 😀 <b>&amp;</b>"),
        ("count", "5", 5),
        ("count", "-5", -5),
        ("count", "five", "five"),
        ("count", "9" * 5000, "9" * 5000),
        ("ratio", "0.5", 0.5),
        ("ratio", "1e+22", 1e22),
        ("ratio", "1e999", "1e999"),
        ("ratio", "NaN", "NaN"),
        ("all", "true", True),
        ("all", "True", True),
        ("all", "False", False),
        ("all", "yes", "yes"),
        ("edits", '[{"a": "é"}]', [{"a": "é"}]),
        ("edits", "[{", "[{"),
        ("edits", '["\\ud800"]', '["\\ud800"]'),
        ("edits", "[" * 5000, "[" * 5000),
        ("edits", "[" * 100 + "]" * 100, "[" * 100 + "]" * 100),
        ("place", '{"line": 3}', {"line": 3}),
        ("place", "3", 3),
        ("maybe", "null", None),
        ("maybe", "None", None),
        ("maybe", "5", "5"),
        ("limit", "null", None),
        ("limit", "7", 7),
        ("loose", "7", 7),
        ("loose", "seven", "seven"),
        ("loose", "true", "true"),
        ("mode", "1", "1"),
        ("level", "2", 2),
        ("fixed", "true", True),
        ("tree", "[1]", [1]),
        ("tree", "null", None),
        ("lost", "1", "1"),
        ("free", "1", "1"),
        ("undeclared", "1", "1"),
    ],
)
def test_a_value_has_the_declared_type_or_stays_text(key: str, written: str, meant: Any) -> None:
    got = value(key, written)
    assert got == meant
    assert type(got) is type(meant)


@pytest.mark.parametrize(
    "tools",
    [
        [],
        [{"type": "function", "function": {"name": "other"}}],
        [{"type": "function", "function": {"name": "edit", "parameters": None}}],
        [{"type": "function", "function": {"name": "edit", "parameters": {"properties": ["count"]}}}],
        [{"type": "function", "function": {"name": "edit", "parameters": {"properties": {"count": True}}}}],
        [{"function": None}, {}],
    ],
)
def test_without_a_readable_declaration_values_are_text(tools: Any) -> None:
    assert value("count", "5", tools) == "5"


def test_of_equal_parameters_the_last_one_holds() -> None:
    assert read(call(("text", "a"), ("text", "b"))) == ("", [("edit", {"text": "b"})])


def test_a_value_may_hold_any_tag_but_its_own_end() -> None:
    for held in (
        "</parameter>",
        "a </parameter> b",
        "</function>\n</tool_call>",
        "<tool_call>",
        "<parameter=x>",
    ):
        assert value("text", held) == held


def test_a_value_ends_where_its_end_is_written() -> None:
    content, calls = read(call(("text", "a\n</parameter>\n</function>\n</tool_call>\nb")))
    assert calls == [("edit", {"text": "a"})]
    assert content == "b\n</parameter>\n</function>\n</tool_call>", "the rest stays visible"


def test_the_end_of_the_turn_closes_the_last_call() -> None:
    assert read(call(("text", "a")).removesuffix("</tool_call>")) == ("", [("edit", {"text": "a"})])


@pytest.mark.parametrize(
    "broken",
    [
        "<tool_call>\n<function=edit>\n<parameter=text>\na\n</tool_call>",
        "<tool_call>\n<function=edit>\n<parameter=text>\na\n</parameter>\n</tool_call>",
        "<tool_call>\n<function=edit>\n<parameter=text\na\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=edit>\n<parameter=>\na\n</parameter>\n</function>\n</tool_call>",
        "<tool_call>\n<function=edit>\nwords\n</function>\n</tool_call>",
        "<tool_call>\n<function=>\n</function>\n</tool_call>",
        "<tool_call>\n<function=two words>\n</function>\n</tool_call>",
        "<tool_call>\n<function=edit>\n</function>\nwords\n</tool_call>",
        "<tool_call>\nedit\n</tool_call>",
        '<tool_call>\n{"name": "edit", "arguments": {}}\n</tool_call>',
        "<function=edit>\n</function>\n</tool_call>",
        "<tool_call>\n<function=edit>\n</function",
    ],
)
def test_a_broken_call_stays_visible(broken: str) -> None:
    assert read(broken) == (broken, [])
    assert read(f"{broken}\n{call()}") == (broken, [("edit", {})])


@pytest.mark.parametrize("end", ["x", "<parameter=count>", "<parameter=count></parameter><parameter=all>"])
def test_many_unfinished_calls_are_read_in_one_pass(end: str) -> None:
    text = f"<tool_call><function=edit><parameter=text></parameter>{end}" * 10_000
    assert read(text) == (text, [])
    assert read(text + call())[1] == [("edit", {})]
