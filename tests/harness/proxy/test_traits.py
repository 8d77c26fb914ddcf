"""A template that cannot be continued token by token is refused when it is loaded, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from lego_harness.errors import SetupError, UsageError
from lego_harness.proxy.render import Renderer
from tests.support.checkpoint import TEMPLATE, write_checkpoint
from tests.support.families import TEMPLATES

CODER = (TEMPLATES / "qwen3_coder.jinja").read_text(encoding="utf-8")
PROMPT = "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"


def load(folder: Path, template: str) -> Renderer:
    return Renderer.load(write_checkpoint(folder, template=template), max_model_len=64)


def changed(old: str, new: str, template: str = TEMPLATE) -> str:
    assert old in template
    return template.replace(old, new)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("hello", "generation prompt is '', expected a line such as <|im_start|>assistant"),
        (changed(PROMPT, PROMPT.replace("\\n", "")), r"generation prompt is '<|im_start|>assistant', expected"),
        (changed(PROMPT, PROMPT.replace("\\n", "\\nSure: ")), "generation prompt is .*Sure: ', expected"),
        (changed("{{- '<|im_end|>\\n' }}\n{%- elif", "{{- '</s>\\n' }}\n{%- elif"), "to end with <|im_end|>"),
        (changed("'<|im_start|>assistant\\n' }}\n{%- if", "'<|im_start|>model\\n' }}\n{%- if"), "to begin with"),
        (changed("{%- if tools %}", "{%- if false %}"), "does not show what-it-does of a conversation"),
        (changed("message.content + '\\n</tool_response>'", "'…'"), "does not show result-c0 of a conversation"),
        (changed("{{- '<tool_call>\\n{\"name", "{{- '<call>\\n{\"name"), "tool call as .* not Hermes JSON or XML"),
        (changed("value | string if", "value | upper if", CODER), "tool call as .* not Hermes JSON or XML"),
        (changed("'<|im_start|>user' }}", "'<|im_start|>user ' ~ loop.index }}"), "otherwise in a longer conv"),
        (
            changed("{{- '<think>\\n' + message.reasoning_content", "{{- '<think>\\n#' + message.reasoning_content"),
            "reads as ParsedReply.*#a-thought",
        ),
        (changed("message.content + '<|im_end|>", "message.content[:20] + '<|im_end|>"), "cuts or rewrites text"),
        ("{%- for m in messages if m.role == 'tool' %}{{ raise_exception('no tools') }}{%- endfor %}" + TEMPLATE, "no tools"),
        ("{{- messages[0].missing.thing }}" + TEMPLATE, "refuses this conversation.*it must render system, user"),
    ],
)  # fmt: skip
def test_an_unusable_template_is_refused_with_the_reason(tmp_path: Path, template: str, words: str) -> None:
    with pytest.raises(SetupError, match=words.replace("|", r"\|")):
        load(tmp_path, template)


def test_a_thought_that_the_prompt_opens_is_closed_before_anything_is_said(tmp_path: Path) -> None:
    opened = PROMPT.replace("\\n", "\\n<think>\\n")
    hiding = changed("{%- if message.reasoning_content %}", "{%- if false %}", changed(PROMPT, opened))
    for name, template in (("shows", changed(PROMPT, opened)), ("hides", hiding)):
        renderer = load(tmp_path / name, template)
        for thought in ("", "Hm."):
            ids = renderer.encode_assistant(
                {"role": "assistant", "content": "Yes.", "reasoning_content": thought}
            )
            assert renderer.vocabulary.decode(ids) == f"{thought}\n</think>\n\nYes.<|im_end|>"
            read = renderer.parse(renderer.vocabulary.decode(ids[:-1]))
            assert (read.reasoning, read.content) == (thought, "Yes.")


def test_marks_for_training_are_looked_through(tmp_path: Path) -> None:
    call = "{{- '}\\n</tool_call>' }}"
    marked = changed(call, "{% generation %}" + call + "{% endgeneration %}")
    messages = [{"role": "user", "content": "Hi."}]
    assert load(tmp_path / "a", marked).render(messages) == load(tmp_path / "b", TEMPLATE).render(messages)


@pytest.mark.parametrize(
    ("name", "reads"),
    [
        ("qwen3", "enable_thinking"),
        ("qwen3_coder", "none, for it has no switches"),
        ("qwen3_6", "enable_thinking, preserve_thinking"),
        ("qwen3_8", "enable_thinking, preserve_thinking, reasoning_effort"),
    ],
)
def test_an_option_that_a_template_does_not_read_is_refused_with_those_it_does(
    tmp_path: Path, name: str, reads: str
) -> None:
    folder = write_checkpoint(tmp_path, template=(TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8"))
    with pytest.raises(UsageError, match=rf"does not read the option 'messages', expected {reads}$"):
        Renderer.load(folder, max_model_len=64, template_options={"messages": []})
