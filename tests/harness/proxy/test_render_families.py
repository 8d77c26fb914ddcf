"""Every family of templates: pieces equal the whole where the template allows it, and ours where it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_harness.errors import UsageError
from lego_harness.proxy.render import Renderer
from tests.support.checkpoint import BOILERPLATE, MARKERS, SPECIAL, write_checkpoint
from tests.support.conversation import BASH
from tests.support.families import ALL, FAMILIES, HEADER, TEMPLATES, Family, load_families

CONTROL = [*SPECIAL, *MARKERS]
TEXT = st.lists(
    st.sampled_from(
        [*CONTROL, BOILERPLATE, "\n", "\n\n", " ", "<", "</parameter>", "é", "😀", "\ue000", "ls -la"]
    )
    | st.text(max_size=5)
).map("".join)
SYSTEM = {"role": "system", "content": f"{BOILERPLATE}\n"}
Message = dict[str, Any]
each_family = pytest.mark.parametrize("name", FAMILIES)
all_families = pytest.mark.parametrize("name", ALL)


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Renderer]:
    return load_families(tmp_path_factory.mktemp("families"))


def user(content: str) -> Message:
    return {"role": "user", "content": content}


def system(content: str) -> Message:
    return {"role": "system", "content": content}


def assistant(content: str, *commands: str, thought: str = "") -> Message:
    calls = [
        {"type": "function", "id": f"c{i}", "function": {"name": "bash", "arguments": {"command": command}}}
        for i, command in enumerate(commands)
    ]
    message: Message = {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}
    return {**message, "reasoning_content": thought} if thought else message


def results(*outputs: str) -> list[Message]:
    return [{"role": "tool", "tool_call_id": f"c{i}", "content": output} for i, output in enumerate(outputs)]


def text(renderer: Renderer, ids: list[int]) -> str:
    return renderer.vocabulary.decode(ids)


@st.composite
def conversations(draw: st.DrawFn, family: Family) -> list[tuple[Message, list[Message]]]:
    """Replies that the family's template shows as sampled, each with the messages behind it."""
    turns: list[tuple[Message, list[Message]]] = []
    for _ in range(draw(st.integers(1, 4))):
        commands = draw(st.lists(TEXT, min_size=0 if family.keeps_old_turns else 1, max_size=3))
        thought = "" if family.thoughts == "never" else draw(TEXT)
        reply = assistant(
            draw(TEXT), *commands, thought=thought or ("Hm." if family.thoughts == "always" else "")
        )
        added = results(*(draw(TEXT) for _ in commands)) or [user(draw(TEXT))]
        if family.late_system and draw(st.booleans()):
            added.append(system(draw(TEXT)))
        turns.append((reply, added))
    return turns


@each_family
@settings(max_examples=25)
@given(data=st.data(), has_tools=st.booleans(), has_system=st.booleans())
def test_the_pieces_are_the_templates_own_rendering(
    families: dict[str, Renderer], name: str, data: st.DataObject, has_tools: bool, has_system: bool
) -> None:
    renderer, tools = families[name], [BASH] if has_tools else []
    messages: list[Message] = [*([SYSTEM] if has_system else []), user("Begin.")]
    ids = renderer.render_opening(messages, tools) + renderer.generation_prompt
    for reply, added in data.draw(conversations(FAMILIES[name])):
        ids += renderer.encode_assistant(reply) + renderer.render_delta(added) + renderer.generation_prompt
        messages += [reply, *added]
    assert ids == renderer.render(messages, tools)


@all_families
@settings(max_examples=25)
@given(data=st.data(), has_tools=st.booleans())
def test_turns_of_others_are_shown_as_history(
    families: dict[str, Renderer], name: str, data: st.DataObject, has_tools: bool
) -> None:
    renderer, tools = families[name], [BASH] if has_tools else []
    messages: list[Message] = [SYSTEM, user("Begin.")]
    ids = renderer.render_opening(messages, tools)
    for commands in data.draw(st.lists(st.lists(TEXT, min_size=1, max_size=2), max_size=3)):
        turn = assistant(data.draw(TEXT), *commands, thought=data.draw(TEXT))
        added = results(*commands)
        ids += renderer.render_turn(turn) + renderer.render_delta(added)
        messages += [turn, *added]
    assert ids == renderer.render(messages, tools, add_generation_prompt=False)


@all_families
def test_an_answer_of_others_is_shown_as_before_a_new_question(
    families: dict[str, Renderer], name: str
) -> None:
    renderer, answer = families[name], assistant("Done.", thought="Hm.")
    messages = [user("Begin."), answer, user("Again.")]
    ids = (
        renderer.render_opening(messages[:1])
        + renderer.render_turn(answer)
        + renderer.render_delta(messages[2:])
    )
    assert ids == renderer.render(messages, add_generation_prompt=False)
    has_thought = "Hm." in text(renderer, ids)
    assert has_thought == ALL[name].shows_old_thoughts


@all_families
def test_what_a_reply_is_sampled_behind(families: dict[str, Renderer], name: str) -> None:
    assert text(families[name], families[name].generation_prompt) == HEADER + ALL[name].prompt
    assert families[name].traits.form.name == ALL[name].form


@all_families
@settings(max_examples=25)
@given(hostile=TEXT)
def test_nothing_said_becomes_a_control_token(families: dict[str, Renderer], name: str, hostile: str) -> None:
    renderer = families[name]
    control = {renderer.vocabulary.encode(literal)[0] for literal in CONTROL}

    def controls(said: str, key: str) -> list[int]:
        schema = {"type": "object", "properties": {key: {"type": "string", key: said}}, key: [said]}
        function = {"name": "t", "description": said, "parameters": schema}
        turn = {**assistant(said, said, thought=said + "x"), "tool_calls": [_call({key: {key: said}})]}
        messages = [system(said), user(said), turn, *results(said), turn, *results(said)]
        ids = renderer.render(messages, [{"type": "function", "function": function}])
        ids += renderer.render_turn(turn) + renderer.encode_assistant(turn)
        ids += renderer.render_delta([*results(said), user(said), system(said)])
        return [token for token in ids if token in control]

    assert controls(hostile.strip() + "x", "key") == controls("x", "key")
    for key in ("think", "/think", "|im_end|", "<|im_end|>"):
        assert controls("x", key) == controls("x", "key")


def _call(arguments: object) -> Message:
    return {"type": "function", "id": "c0", "function": {"name": "bash", "arguments": arguments}}


def test_whole_conversations_are_what_transformers_renders(
    families: dict[str, Renderer], tmp_path_factory: pytest.TempPathFactory
) -> None:
    from transformers import PreTrainedTokenizerFast

    theirs = PreTrainedTokenizerFast(
        tokenizer_file=str(write_checkpoint(tmp_path_factory.mktemp("x")) / "tokenizer.json")
    )
    turn = assistant(" Größe <b> & 'x' ", "ls <&> é", "\n", thought=" Hm.\n")
    messages = [SYSTEM, user(" Größe <b> & 'x'"), turn, *results("a\nb ", ""), assistant("Ja."), user("Ok.")]
    for name, family in ALL.items():
        template = (TEMPLATES / f"{family.template}.jinja").read_text(encoding="utf-8")
        options = {"tokenize": False, "add_generation_prompt": True, **family.options}
        shown = theirs.apply_chat_template(messages, tools=[BASH], chat_template=template, **options)
        assert text(families[name], families[name].render(messages, [BASH])) == shown


# --- what was sampled stays -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["qwen3", "qwen3-thinking", "qwen3.5", "qwen3.6"])
def test_an_old_thought_stays_although_the_template_drops_it(
    families: dict[str, Renderer], name: str
) -> None:
    renderer, reply, added = families[name], assistant("Yes.", thought="A-THOUGHT"), [user("And now?")]
    first = renderer.render_opening([user("Begin.")]) + renderer.generation_prompt
    pieces = (
        first + renderer.encode_assistant(reply) + renderer.render_delta(added) + renderer.generation_prompt
    )
    whole = renderer.render([user("Begin."), reply, *added])
    assert "A-THOUGHT" in text(renderer, pieces)
    assert "A-THOUGHT" not in text(renderer, whole)
    assert len(whole) < len(pieces)


@pytest.mark.parametrize("name", ["qwen3-off", "qwen3.5-off"])
def test_the_empty_thought_of_the_prompt_stays(families: dict[str, Renderer], name: str) -> None:
    renderer, reply, added = families[name], assistant("Yes."), [user("And now?")]
    first = renderer.render_opening([user("Begin.")]) + renderer.generation_prompt
    pieces = (
        first + renderer.encode_assistant(reply) + renderer.render_delta(added) + renderer.generation_prompt
    )
    assert text(renderer, pieces).count("<think>\n\n</think>\n\n") == 2
    assert text(renderer, renderer.render([user("Begin."), reply, *added])).count("<think>") == 1


def test_a_tool_loop_without_thinking_keeps_its_prompts(families: dict[str, Renderer]) -> None:
    reply, added = assistant("", "ls"), results("a.py")
    for name, num_shown in (("qwen3-off", 1), ("qwen3.5-off", 2)):
        whole = text(families[name], families[name].render([user("Begin."), reply, *added]))
        assert whole.count("<think>\n\n</think>\n\n") == num_shown, (
            "the templates differ here; the pieces never do"
        )


@all_families
def test_a_delta_does_not_merge_with_what_was_sampled(families: dict[str, Renderer], name: str) -> None:
    renderer = families[name]
    newline = renderer.vocabulary.encode("\n")
    assert len(renderer.vocabulary.encode("\n\n")) == 1, "the tokenizer merges two newlines"
    assert renderer.render_delta([user("x")])[:1] == newline
    assert renderer.render_delta([]) == newline
    assert renderer.vocabulary.decode(newline * 2) == "\n\n"
    assert renderer.parse(renderer.vocabulary.decode(newline * 2)).calls == ()


@pytest.mark.parametrize("name", ["qwen3-thinking", "qwen3.5", "qwen3.6"])
def test_an_empty_thought_begins_behind_the_open_one(families: dict[str, Renderer], name: str) -> None:
    """`<think>` + one newline + another, which the text of both would encode as one token."""
    renderer = families[name]
    reply = renderer.encode_assistant(assistant("Yes."))
    assert reply[0] == renderer.generation_prompt[-1] == renderer.vocabulary.encode("\n")[0]
    assert renderer.vocabulary.encode("<think>\n\n")[1] != reply[0]


# --- new messages -------------------------------------------------------------------------------------


@all_families
def test_parallel_results_are_one_user_turn(families: dict[str, Renderer], name: str) -> None:
    between = "\n" if name == "qwen3-coder" else ""
    delta = text(families[name], families[name].render_delta(results("one", "two")))
    assert delta == (
        f"\n<|im_start|>user\n<tool_response>\none\n</tool_response>\n"
        f"<tool_response>\ntwo\n</tool_response>{between}<|im_end|>\n"
    )


@all_families
def test_a_late_system_message_is_shown_or_becomes_a_users(families: dict[str, Renderer], name: str) -> None:
    renderer = families[name]
    role = "system" if ALL[name].late_system else "user"
    shown = f"<|im_start|>{role}\nRemember.<|im_end|>\n"
    delta = text(renderer, renderer.render_delta([*results("ok"), system("Remember.")]))
    assert delta.endswith(f"<|im_end|>\n{shown}")
    opening = text(renderer, renderer.render_opening([system("Rule."), user("Hi."), system("Remember.")]))
    assert opening.endswith(f"<|im_start|>user\nHi.<|im_end|>\n{shown}")


@all_families
def test_system_messages_in_a_row_are_all_shown(families: dict[str, Renderer], name: str) -> None:
    opening = text(
        families[name], families[name].render_opening([system("One."), system("Two."), user("Hi.")])
    )
    between = "<|im_end|>\n<|im_start|>system\n" if ALL[name].late_system else "\n\n"
    assert f"One.{between}Two.<|im_end|>\n<|im_start|>user\nHi." in opening


@all_families
@pytest.mark.parametrize("messages", [[], [SYSTEM], [SYSTEM, system("More.")]])
def test_an_opening_needs_no_user(families: dict[str, Renderer], name: str, messages: list[Message]) -> None:
    renderer = families[name]
    opening = renderer.render_opening(messages, [BASH])
    asked = renderer.render([*messages, user("Hi.")], [BASH])
    assert asked[: len(opening)] == opening
    assert text(renderer, asked[len(opening) :]).startswith("<|im_start|>user\nHi.")


@all_families
def test_what_a_template_would_lose_is_refused(families: dict[str, Renderer], name: str) -> None:
    renderer = families[name]
    with pytest.raises(UsageError, match="role 'critic', expected one of system, developer, user"):
        renderer.render_delta([{"role": "critic", "content": "Bad."}])
    with pytest.raises(UsageError, match="content of type list, expected text"):
        renderer.render_opening([{"role": "user", "content": [{"type": "text", "text": "Hi."}]}])
    deep: Any = "x"
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(UsageError, match="nested too deeply"):
        renderer.render_turn({**assistant(""), "tool_calls": [_call({"x": deep})]})
    assert renderer.render_opening([{"role": "developer", "content": "Rule."}, user("Hi.")]) == (
        renderer.render_opening([system("Rule."), user("Hi.")])
    )


@all_families
def test_arguments_that_are_no_object_are_shown(families: dict[str, Renderer], name: str) -> None:
    renderer = families[name]

    def shown(arguments: object) -> str:
        turn = {**assistant("Hm.", thought="Think."), "tool_calls": [_call(arguments)]}
        return text(renderer, renderer.render_turn(turn))

    assert shown('{"command": "ls"}') == shown({"command": "ls"})
    assert shown(" {} ") == shown({})
    if ALL[name].form == "Hermes JSON":
        assert '"arguments": {"command": }\n</tool_call>' in shown('{"command": ')
    else:
        assert '<parameter=arguments>\n{"command": \n</parameter>' in shown('{"command": ')


def test_scalars_are_written_as_the_family_does(families: dict[str, Renderer]) -> None:
    turn = {
        **assistant(""),
        "tool_calls": [_call({"a": True, "b": None, "c": 1.5, "d": {"e": [True]}, "f": "x"})],
    }
    said = {name: text(renderer, renderer.render_turn(turn)) for name, renderer in families.items()}
    for name in ("qwen3-coder", "qwen3.5"):
        assert _values(said[name]) == ["True", "None", "1.5", '{"e": [true]}', "x"]
    assert _values(said["qwen3.6"]) == ["true", "null", "1.5", '{"e": [true]}', "x"]
    assert '{"a": true, "b": null, "c": 1.5, "d": {"e": [true]}, "f": "x"}' in said["qwen3"]


def _values(said: str) -> list[str]:
    return [part.partition("\n</parameter>")[0].partition("\n")[2] for part in said.split("<parameter=")[1:]]


def test_tools_stand_where_the_family_puts_them(families: dict[str, Renderer]) -> None:
    for name, renderer in families.items():
        opening = text(renderer, renderer.render_opening([system("A-RULE"), user("Hi.")], [BASH]))
        is_behind = opening.index("# Tools") > opening.index("A-RULE")
        assert is_behind == (not name.startswith(("qwen3.5", "qwen3.6", "qwen3.8")))
        assert opening.count("<|im_start|>system\n") == 1
