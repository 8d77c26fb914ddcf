"""The table of rewrites that keep the sampled ids, row by row, and what lies just outside it."""

from __future__ import annotations

from typing import Any

import pytest

from lego_harness.proxy.conversation import Message
from lego_harness.proxy.echo import difference

DEFAULTS: dict[str, dict[str, Any]] = {"Bash": {"timeout": 30}}


def reply(arguments: Any, content: str = "", name: str = "Bash", call_id: str = "c1", **more: Any) -> Message:
    call = {"type": "function", "id": call_id, "function": {"name": name, "arguments": arguments}}
    message: Any = {"role": "assistant", "content": content, "tool_calls": [call], **more}
    return message


@pytest.mark.parametrize(
    ("sampled", "echoed"),
    [
        ({"a": "x", "b": "y"}, {"b": "y", "a": "x"}),
        ({"a": "x"}, {"a": "x", "replace_all": False}),
        ({"a": "x"}, {"a": "x", "timeout": 30}),
        ({"a": "x", "b": None}, {"a": "x"}),
        ({"a": "x", "b": "", "replace_all": False, "timeout": 30}, {"a": "x"}),
        ({"content": "one  \ntwo\t\n\n"}, {"content": "one\ntwo"}),
        ({"n": "1"}, {"n": 1}),
        ({"n": "false"}, {"n": False}),
        ({"n": 5000.0}, {"n": 5000}),
        ({"n": "5000.0"}, {"n": 5000}),
        ({"n": 5, "flag": True, "deep": {"a": [1]}}, {"n": "5", "flag": "true", "deep": '{"a": [1]}'}),
        ({"n": "12345678901234567890"}, {"n": 12345678901234567000}),
        ({"command": "cd /workspace && ls"}, {"command": "ls"}),
        ({"command": 'cd "/my work" && ls'}, {"command": "ls"}),
        ({"command": "git stash; cd /work && ls"}, {"command": "git stash; ls"}),
        ({"command": r"cd /work && find . -exec wc {} \\;"}, {"command": r"find . -exec wc {} \;"}),
        ({"deep": [{"x": "1", "y": "a "}]}, {"deep": [{"y": "a", "x": 1}]}),
        ({"n": 2.50}, {"n": 2.5}),
        ({"files": '["a.py", 1, null]'}, {"files": ["a.py", 1, None]}),
        ({"options": ' {"deep": ["1"]}\n'}, {"options": {"deep": [1]}}),
        ({"n": 1e3}, {"n": 1000}),
        ({"n": 12345678901234567890}, {"n": 12345678901234567000}),
        ({"a": "\u00e9"}, {"a": "é"}),
        ("{broken", {"__unparsedToolInput": {"raw": "{broken"}}),
        ("{broken", "{broken"),
        ({"arguments": "{broken"}, {"__unparsedToolInput": {"raw": "{broken"}}),
        ({"arguments": "{broken"}, "{broken"),
    ],
)
def test_the_same_meaning_keeps_the_turn(sampled: Any, echoed: Any) -> None:
    assert difference(reply(sampled), reply(echoed), DEFAULTS) == ""


@pytest.mark.parametrize(
    ("sampled", "echoed"),
    [
        ({"a": "x"}, {"a": "X"}),
        ({"a": "x"}, {}),
        ({"a": "x"}, {"a": "x", "force": True}),
        ({"a": "x", "force": True}, {"a": "x"}),
        ({"n": 5}, {"n": "6"}),
        ({"deep": {"a": 1}}, {"deep": '{"a": 2}'}),
        ({"a": "x"}, {"a": "x", "timeout": 31}),
        ({"old": "  x"}, {"old": "x"}),
        ({"n": "1"}, {"n": 2}),
        ({"n": 1}, {"n": True}),
        ({"files": '["a.py", 1]'}, {"files": ["a.py", 2]}),
        ({"files": "a.py, b.py"}, {"files": ["a.py", "b.py"]}),
        ({"files": "NaN"}, {"files": []}),
        ({"n": "yes"}, {"n": True}),
        ({"command": "ls"}, {"command": "cd /workspace && ls"}),
        ({"command": "cd /a && ls"}, {"command": "cd /b && ls"}),
        ({"command": "cd /a && cd /b && ls"}, {"command": "ls"}),
        ({"command": r"find . -exec wc {} \;"}, {"command": "find . -exec wc {} ;"}),
        ({"deep": [1, 2]}, {"deep": [1]}),
        ({"a": "x"}, "not an object"),
        ({"n": 1234567890}, {"n": 1234567000}),
        ({"n": 10**400}, {"n": -(10**400)}),
        ("{broken", {"__unparsedToolInput": {"raw": "{other"}}),
        ({"arguments": "{broken"}, "{other"),
        ("{broken", {"_openhands_malformed_tool_call": True, "error": "{broken"}),
    ],
)
def test_another_meaning_is_another_turn(sampled: dict[str, Any], echoed: Any) -> None:
    assert difference(reply(sampled), reply(echoed), DEFAULTS) != ""


def test_text_may_lose_its_surrounding_white_space_only() -> None:
    assert difference(reply({}, "\n\nHi. \n"), reply({}, "Hi."), {}) == ""
    assert difference(reply({}, " \n"), reply({}, ""), {}) == ""
    assert "at character 1" in difference(reply({}, "Hi."), reply({}, "Ho."), {})


def test_reasoning_may_be_dropped_but_not_changed() -> None:
    thought = reply({}, reasoning_content="Hm.")
    assert difference(thought, reply({}), {}) == ""
    assert difference(thought, reply({}, reasoning_content="Hm.\n"), {}) == ""
    assert "reasoning" in difference(thought, reply({}, reasoning_content="Ha."), {})


@pytest.mark.parametrize(
    ("echoed", "is_same"),
    [
        ("<think>\nHm.\n</think>\n\nHi.", True),
        ("<think>Hm.</think>Hi.", True),
        ("<think></think> Hi.", True),
        ("<think>Ha.</think>Hi.", False),
        ("<think>Hm.</think>Ho.", False),
        ("Hi. <think>Hm.</think>", False),
        ("<think>Hm. Hi.", False),
    ],
)
def test_reasoning_may_stand_in_front_of_the_content_in_its_tags(echoed: str, is_same: bool) -> None:
    thought = reply({}, "Hi.", reasoning_content="Hm.")
    assert (difference(thought, reply({}, echoed), {}) == "") is is_same
    literal = reply({}, "<think>Hm.</think>Hi.")
    assert difference(literal, reply({}, "<think>Hm.</think>Hi."), {}) == ""
    cut = reply({}, "", reasoning_content="Hm.")
    assert difference(cut, reply({}, "<think>\nHm."), {}) == ""


def test_an_id_that_nobody_issued_means_nothing() -> None:
    renamed = reply({"a": "x"}, call_id="mine-0")
    assert difference(reply({"a": "x"}), renamed, {}, {"c1", "c2"}) == ""
    assert difference(reply({"a": "x"}), renamed, {}, {"c1", "mine-0"}) != ""
    assert difference(reply({"a": "y"}), renamed, {}, {"c1"}) != ""
    assert difference(reply({"a": "x"}), renamed, {}) != ""


def test_calls_are_known_by_their_ids() -> None:
    assert "[c2], expected [c1]" in difference(reply({}), reply({}, call_id="c2"), {})
    assert "'Bash' and is 'bash'" in difference(reply({}), reply({}, name="bash"), {})
    assert "[], expected [c1]" in difference(reply({}), {"role": "assistant", "content": ""}, {})
    assert "role user" in difference(reply({}), {"role": "user", "content": ""}, {})


@pytest.mark.parametrize(("sampled", "echoed"), [("bash", "Bash"), ("execute_bash", "Bash")])
def test_a_tool_may_be_named_as_the_harness_knows_it(sampled: str, echoed: str) -> None:
    assert difference(reply({"a": "x"}, name=sampled), reply({"a": "x"}, name=echoed), DEFAULTS) == ""
    assert difference(reply({"a": "x"}, name=sampled), reply({"a": "y"}, name=echoed), DEFAULTS) != ""


def test_a_call_replaced_by_another_is_another_turn() -> None:
    offered = {**DEFAULTS, "invalid": {}}
    replaced = reply({"tool": "Nope", "error": "no such tool"}, name="invalid")
    assert difference(reply({"x": "y"}, name="Nope"), replaced, offered) != ""
    assert difference(reply({"a": "x"}), reply({"a": "x"}, name="invalid"), offered) != ""
