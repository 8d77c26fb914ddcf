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


def test_a_passage_is_known_by_its_words_or_by_their_shape() -> None:
    assert is_mostly("List the files.", "List the files.")
    assert is_mostly("Now:\nList the files.", "List the files.")
    assert is_mostly("[[a]] Pobi veq kulem.", "[[a]] List the files.")
    assert not is_mostly("Pobi veq kulems.", "List the files.")


def test_a_path_or_command_within_a_text_is_no_passage_of_it() -> None:
    assert not is_mostly("Repair /workspace/calc.py.", "/workspace/calc.py")
    assert not is_mostly("Run python -m pytest", "python -m pytest")
    assert not is_mostly("Repair add() in calc.py, then run this:\npython -m pytest", "python -m pytest")
