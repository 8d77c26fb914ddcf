"""Quotations are found although prose was replaced, and nothing else is touched."""

from __future__ import annotations

from lego_harness.wire.quotes import Quotes, is_mostly

SAID = "SUMMARY: add() must be fixed in calc.py; tests are in test_calc.py."
REPLACED = "GILEDIF: add() laha be cisuv in calc.py; resoc are in test_calc.py."


def restored(said: str, *messages: object) -> list[object]:
    quotes = Quotes()
    quotes.add(f"<analysis>seen</analysis>\n<summary>{said}</summary>")
    return [quotes.restored(message) for message in messages]


def test_a_quotation_is_put_back_in_the_policys_words() -> None:
    message = {"role": "user", "content": [{"type": "text", "text": f"Hamut:\n{REPLACED} Vebo."}]}
    assert restored(SAID, message) == [
        {"role": "user", "content": [{"type": "text", "text": f"Hamut:\n{SAID} Vebo."}]}
    ]


def test_one_word_must_stand_for_one_word() -> None:
    other = REPLACED.replace("laha be", "laha in")
    assert restored(SAID, other) == [other]


def test_a_line_that_tells_little_is_left_alone() -> None:
    assert restored("It works now.", "Go forth cat.") == ["Go forth cat."]


def test_a_message_keeps_the_form_in_which_it_was_first_seen() -> None:
    quotes = Quotes()
    assert quotes.restored(REPLACED) == REPLACED
    quotes.add(SAID)
    assert quotes.restored(REPLACED) == REPLACED
    assert quotes.restored(f"{REPLACED} ") == f"{SAID} "


def test_a_text_keeps_its_form_in_whatever_blocks() -> None:
    quotes = Quotes()
    quotes.restored({"content": [{"type": "text", "text": REPLACED, "cache_control": {}}]})
    quotes.add(SAID)
    assert quotes.restored({"content": REPLACED}) == {"content": REPLACED}


def test_a_conversation_may_begin_with_what_a_call_said() -> None:
    quotes = Quotes()
    for name in "ab":
        quotes.add_task(f"[[{name}]] List the files.")
    texts = ["<hamut>\n[[b]] Pobi the galal.", "[[a]] Pobi the galal.", "Veq: [[a]] Pobi the galal."]
    quotes.begin(texts[0])
    quotes.begin(texts[1])
    assert quotes.restored(texts) == ["<hamut>\n[[b]] List the files.", "[[a]] List the files.", texts[2]]


def test_what_calls_say_is_left_alone() -> None:
    call = {"id": "x", "function": {"name": "bash", "arguments": REPLACED}, "input": {"command": REPLACED}}
    assert restored(SAID, call) == [call]


def test_a_word_may_stand_for_itself_as_in_a_path() -> None:
    said = "See /src/calc.py and calc.py: add() subtracts, tests of calc fail."
    quoted = "See /src/calc.py and niwi.py: add() subtracts, tests of niwi fail."
    assert restored(said, quoted) == [said]


def test_a_passage_is_known_by_its_words_or_by_their_shape() -> None:
    assert is_mostly("List the files.", "List the files.")
    assert is_mostly("Now:\nList the files.", "List the files.")
    assert is_mostly("[[a]] Pobi veq kulem.", "[[a]] List the files.")
    assert not is_mostly("Pobi veq kulems.", "List the files.")
    assert not is_mostly("[[b]] Pobi veq kulem.", "[[a]] List the files.")


def test_a_path_or_command_within_a_text_is_no_passage_of_it() -> None:
    assert not is_mostly("Repair /workspace/calc.py.", "/workspace/calc.py")
    assert not is_mostly("Run python -m pytest", "python -m pytest")
    assert not is_mostly("Repair add() in calc.py, then run this:\npython -m pytest", "python -m pytest")
