"""Canonical tokenisation: template-made control tokens only, whole rendering = incremental rendering."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.errors import SetupError, UsageError
from lego_harness.proxy.render import Renderer
from tests.support.checkpoint import BOILERPLATE, MARKERS, SPECIAL, write_checkpoint
from tests.support.conversation import BASH

SYSTEM = {"role": "system", "content": f"{BOILERPLATE}\nWork in /workspace."}
CONTROL = [*SPECIAL, *MARKERS]
TEXT = st.lists(
    st.sampled_from([*CONTROL, BOILERPLATE, "\n", " ", "<", "|>", "é", "😀", "\ue000", "ls -la"])
    | st.text(max_size=5)
).map("".join)


@pytest.fixture(scope="module")
def same_renderer(tmp_path_factory: pytest.TempPathFactory) -> Renderer:
    return Renderer.load(write_checkpoint(tmp_path_factory.mktemp("model")), max_model_len=4096)


def user(content: str) -> dict[str, Any]:
    return {"role": "user", "content": content}


def assistant(content: str, *commands: str) -> dict[str, Any]:
    calls = [
        {"type": "function", "id": f"c{i}", "function": {"name": "bash", "arguments": {"command": command}}}
        for i, command in enumerate(commands)
    ]
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


def results(*outputs: str) -> list[dict[str, Any]]:
    return [{"role": "tool", "tool_call_id": f"c{i}", "content": output} for i, output in enumerate(outputs)]


def test_renders_what_transformers_renders(model_dir: Path, renderer: Renderer) -> None:
    from transformers import PreTrainedTokenizerFast

    template = (model_dir / "chat_template.jinja").read_text(encoding="utf-8")
    theirs = PreTrainedTokenizerFast(tokenizer_file=str(model_dir / "tokenizer.json"), chat_template=template)
    messages = [SYSTEM, user("Größe <b> & 'x'"), assistant("Ja.", "ls <&> é"), *results("a\nb")]
    text = theirs.apply_chat_template(messages, tools=[BASH], add_generation_prompt=True, tokenize=False)
    assert renderer.vocabulary.decode(renderer.render(messages, [BASH])) == text


def test_boilerplate_is_one_token_in_content(renderer: Renderer) -> None:
    ids = renderer.render([SYSTEM, user("x")])
    assert renderer.vocabulary.encode(BOILERPLATE)[0] in ids
    assert len(renderer.vocabulary.encode(BOILERPLATE)) == 1


@given(hostile=TEXT)
def test_text_of_a_conversation_never_becomes_a_control_token(same_renderer: Renderer, hostile: str) -> None:
    tool = {
        "type": "function",
        "function": {"name": "t", "description": hostile, "parameters": {hostile: hostile}},
    }
    messages = [user(hostile), assistant("", hostile), *results(hostile)]
    plain = [user("x"), assistant("", "x"), *results("x")]
    harmless = {"type": "function", "function": {"name": "t", "description": "x", "parameters": {"x": "x"}}}
    control = {same_renderer.vocabulary.encode(text)[0] for text in CONTROL}
    count = [token for token in same_renderer.render(messages, [tool]) if token in control]
    assert count == [token for token in same_renderer.render(plain, [harmless]) if token in control]


@given(hostile=TEXT)
def test_text_survives_the_way_through_ids(same_renderer: Renderer, hostile: str) -> None:
    text = same_renderer.vocabulary.decode(same_renderer.render([user(hostile)]))
    assert text == f"<|im_start|>user\n{hostile}<|im_end|>\n<|im_start|>assistant\n"


@given(
    turns=st.lists(st.tuples(TEXT, st.lists(TEXT, max_size=3), TEXT, st.booleans()), min_size=1, max_size=5),
    has_tools=st.booleans(),
)
def test_incremental_rendering_equals_full_rendering(
    same_renderer: Renderer, turns: list[tuple[str, list[str], str, bool]], has_tools: bool
) -> None:
    tools = [BASH] if has_tools else []
    messages = [SYSTEM, user("Begin.")]
    ids = same_renderer.render(messages, tools)
    for content, commands, answer, is_noted in turns:
        reply = assistant(content, *commands)
        added = results(*commands) if commands else [user(answer)]
        if is_noted:
            added = [*added, {"role": "system", "content": answer}]
        delta = same_renderer.render_delta(added) + same_renderer.generation_prompt
        ids += same_renderer.encode_assistant(reply) + delta
        messages += [reply, *added]
    assert ids == same_renderer.render(messages, tools)


def test_reasoning_is_part_of_what_a_policy_samples(renderer: Renderer) -> None:
    reply = {**assistant("Yes."), "reasoning_content": "Hm."}
    assert (
        renderer.vocabulary.decode(renderer.encode_assistant(reply))
        == "<think>\nHm.\n</think>\n\nYes.<|im_end|>"
    )


def test_a_reply_never_merges_with_the_generation_prompt(renderer: Renderer) -> None:
    reply = assistant("\n\nTwo lines above.")
    prompt = renderer.render([user("x")])
    whole = renderer.render([user("x"), reply], add_generation_prompt=False)
    assert whole[: len(prompt)] == prompt
    assert whole[len(prompt) :][: len(renderer.encode_assistant(reply))] == renderer.encode_assistant(reply)


def test_a_template_that_refuses_says_so(model_dir: Path, tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path)
    template = (folder / "chat_template.jinja").read_text(encoding="utf-8")
    refusing = "{%- for m in messages %}{%- if 'no' == m.content %}{{ raise_exception('not this') }}{%- endif %}{%- endfor %}"
    (folder / "chat_template.jinja").write_text(refusing + template, encoding="utf-8")
    renderer = Renderer.load(folder, max_model_len=64)
    with pytest.raises(UsageError, match="refuses this conversation: not this"):
        renderer.render([user("no")])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("tokenizer.json", "{}", "no tokenizer to read"),
        ("tokenizer_config.json", "{", "cannot be read as JSON"),
        ("chat_template.jinja", "{% if %}", "does not compile"),
        ("chat_template.jinja", "hello", "generation prompt is ''"),
    ],
)
def test_a_broken_checkpoint_is_named(tmp_path: Path, name: str, content: str, words: str) -> None:
    folder = write_checkpoint(tmp_path)
    (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(SetupError, match=words):
        Renderer.load(folder, max_model_len=64)


def test_a_checkpoint_without_a_template_is_refused(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path)
    (folder / "chat_template.jinja").unlink()
    with pytest.raises(SetupError, match="no chat template"):
        Renderer.load(folder, max_model_len=64)
