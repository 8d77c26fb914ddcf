"""Vendor prose becomes unreadable, and nothing that matters to a replay changes."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lego_harness.wire.prose import Prose

WORDS = st.text("abcdefghijklmnopqrstuvwxyzABC", min_size=1, max_size=9)
TEXTS = st.lists(WORDS | st.sampled_from([" ", "\n", ", ", "/etc/motd ", "x2 ", "don't ", "ä"])).map("".join)


def test_words_keep_length_case_and_place() -> None:
    text = "Carefully inspect EVERYTHING, carefully;\n\tnever Guess."
    replaced = Prose([]).replaced_text(text)
    assert [len(word) for word in re.findall("[A-Za-z]+", replaced)] == [9, 7, 10, 9, 5, 5]
    assert re.sub("[a-z]", "a", re.sub("[A-Z]", "A", replaced)) == re.sub(
        "[a-z]", "a", re.sub("[A-Z]", "A", text)
    )
    words = re.findall("[A-Za-z]+", replaced)
    assert words[0].lower() == words[3]
    assert "inspect" not in replaced


def test_paths_identifiers_and_our_own_words_stay() -> None:
    text = "Look at /usr/share/vendor/notes.txt, store.py and cch_abc 0c3f9a: reduce_cost returns the sum"
    assert Prose(["store.py", "look returns sum"]).replaced_text(text) == text


def test_only_prose_is_replaced() -> None:
    body: dict[str, Any] = {
        "model": "policy",
        "system": [{"type": "text", "text": "Behave."}],
        "tools": [
            {"name": "Inspect", "description": "Inspects.", "input_schema": {"required": ["elsewhere"]}}
        ],
        "messages": [
            {"role": "user", "content": "Hurry up."},
            {
                "role": "assistant",
                "tool_calls": [{"id": "abcdef", "function": {"arguments": '{"verbose": 1}'}}],
            },
            {"role": "tool", "tool_call_id": "abcdef", "content": [{"type": "text", "text": "Finished."}]},
        ],
    }
    replaced = Prose([]).replaced(body)
    texts = [
        replaced["system"][0]["text"],
        replaced["tools"][0]["description"],
        replaced["messages"][0]["content"],
        replaced["messages"][2]["content"][0]["text"],
    ]
    assert not any(word in " ".join(texts) for word in ("Behave", "Inspects", "Hurry", "Finished"))
    body["system"][0]["text"], body["tools"][0]["description"] = texts[:2]
    body["messages"][0]["content"], body["messages"][2]["content"][0]["text"] = texts[2:]
    assert replaced == body


@given(st.lists(TEXTS, min_size=2, max_size=5))
def test_equality_and_prefixes_between_texts_stay(texts: list[str]) -> None:
    prose = Prose(["kept words"])
    replaced = [prose.replaced_text(text) for text in texts]
    for one, new_one in zip(texts, replaced, strict=True):
        assert len(new_one) == len(one)
        for other, new_other in zip(texts, replaced, strict=True):
            assert (one == other) == (new_one == new_other)
            joined = prose.replaced_text(f"{one} {other}")
            assert joined == f"{new_one} {new_other}"


@given(TEXTS)
def test_the_same_text_gives_the_same_recording(text: str) -> None:
    assert Prose([]).replaced_text(text) == Prose([]).replaced_text(text)
