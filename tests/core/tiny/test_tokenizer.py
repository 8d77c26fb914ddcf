"""The tiny tokenizer and its chat template."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lego_core.tiny.demonstrations import Demonstrator, encode, one_id
from lego_core.tiny.tokenizer import MARKERS, SPECIAL, VOCAB_SIZE, bootstrap_tokenizer
from lego_harness.proxy.render import Renderer
from lego_harness.tasks.synth_words import OPERATIONS
from tests.support.invented_harness import RULES

CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"type": "function", "id": "c1", "function": {"name": "bash", "arguments": {"command": "ls"}}}
    ],
}
TOOLS = [{"type": "function", "function": {"name": "bash", "description": "Run.", "parameters": {}}}]


def test_words_operators_markers_and_boilerplate_are_single_tokens(demonstrator: Demonstrator) -> None:
    texts = [*SPECIAL, *MARKERS, RULES]
    texts += [f" {op.word}" for op in OPERATIONS] + [f" {op.operator}" for op in OPERATIONS]
    assert len({one_id(demonstrator.tokenizer, text) for text in texts}) == len(texts)


def test_the_vocabulary_has_its_exact_size(demonstrator: Demonstrator) -> None:
    assert len(demonstrator.tokenizer) == len(bootstrap_tokenizer()) == VOCAB_SIZE


@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=80))
def test_any_text_round_trips_through_bytes(text: str) -> None:
    tokenizer = bootstrap_tokenizer()
    assert tokenizer.decode(encode(tokenizer, text), skip_special_tokens=False) == text


def test_a_conversation_is_a_prefix_of_its_continuation(demonstrator: Demonstrator, tmp_path: Path) -> None:
    demonstrator.tokenizer.save_pretrained(tmp_path)
    renderer = Renderer.load(tmp_path, max_model_len=4096)
    asked = [{"role": "system", "content": "Work."}, {"role": "user", "content": "List."}]
    answered = {"role": "tool", "tool_call_id": "c1", "content": "a.py"}
    first = renderer.render(asked, TOOLS)
    second = renderer.render([*asked, CALL, answered], TOOLS)
    delta = renderer.render_delta([answered]) + renderer.generation_prompt
    assert second == first + renderer.encode_assistant(CALL) + delta


def test_a_reply_of_the_script_is_what_the_template_renders(
    demonstrator: Demonstrator, tmp_path: Path
) -> None:
    demonstrator.tokenizer.save_pretrained(tmp_path)
    renderer = Renderer.load(tmp_path, max_model_len=4096)
    reply = demonstrator.script.replies(word="sum", operator="+")[0].replace("cat *.py", "ls")
    assert renderer.encode_assistant(CALL) == encode(demonstrator.tokenizer, reply + "<|im_end|>")
