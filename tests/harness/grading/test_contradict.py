"""Tests and their contradictions: who passes the one honestly fails the other."""

from __future__ import annotations

import random
import re
import unittest
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_harness.grading.contradict import Dice, contradictable, contradicted, delegating, with_an_end

SIMPLE = st.none() | st.booleans() | st.integers() | st.text() | st.binary()
LITERALS = st.recursive(
    SIMPLE | st.floats(allow_nan=False, allow_infinity=False, width=16),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.integers(), inner),
    max_leaves=6,
)


class EqualsAnything:
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True


def outcome(source: str, answer: Any, name: str = "test_it") -> bool:
    """Whether a test function passes when `answer` is what the code under test gives."""
    scope: dict[str, Any] = {"answer": answer, "pytest": pytest}
    exec(source, scope)
    try:
        scope[name]()
    except AssertionError:
        return False
    return True


def flipped(source: str, seed: int = 0) -> str:
    files = {"test_x.py": source.encode()}
    return contradicted(files, {"test_x.py::test_it": (True,)}, random.Random(seed))["test_x.py"].decode()


@given(LITERALS, st.integers(0, 2**32))
def test_no_value_equals_an_expected_literal_and_its_contradiction(value: Any, seed: int) -> None:
    source = f"def test_it():\n    assert answer == {value!r}\n"
    assert outcome(source, value)
    assert not outcome(flipped(source, seed), value)


@given(LITERALS, st.integers(0, 2**32))
def test_what_equals_anything_passes_both(value: Any, seed: int) -> None:
    source = f"def test_it():\n    assert answer == {value!r}\n"
    assert outcome(source, EqualsAnything())
    assert outcome(flipped(source, seed), EqualsAnything())


HONEST: dict[str, tuple[str, Any]] = {
    "a name": ("wanted = 3\n    assert answer == wanted", 3),
    "the other side": ("assert 3 == answer", 3),
    "a condition": ("assert answer", 1),
    "a negation": ("assert not answer", 0),
    "an order": ("assert answer < 4", 3),
    "both of two": ("assert answer == 3 and answer > 2", 3),
    "all of many": ("assert all(a == 1 for a in answer)", [1, 1]),
    "below a with": ("import contextlib\n    with contextlib.nullcontext():\n        assert answer == 3", 3),
    "a message": ("assert answer == 3, 'no'", 3),
    "in a loop": ("for n in range(3):\n        assert answer == n * 0 + 3", 3),
    "rows of a loop": ("for a, b in [(1, 3), (2, 4)]:\n        assert a + answer == b", 2),
    "rows with a name": ("rows = {1: 3}\n    for a, b in rows.items():\n        assert a + answer == b", 2),
    "behind a function": ("def f():\n        return 1\n    assert answer == f()", 1),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_work_fails_the_contradiction_of_what_it_passes(name: str) -> None:
    body, answer = HONEST[name]
    source = f"def test_it():\n    {body}\n"
    assert outcome(source, answer)
    assert [outcome(flipped(source, seed), answer) for seed in range(5)] == [False] * 5


ALIKE = {
    "an object": ("assert f() == Point(1, 2)", r"assert f\(\) == Point\(-?\d, -?\d\)"),
    "a name": (
        "assert f() == g",
        r"assert \[1 for one, other in [a-z]{10}\(f\(\), g\) if one == other\]",
    ),
    "a named literal": ("w = [1, x]\n    assert f() == w", r"w = \[-?\d, x\]\n    assert f\(\) == w"),
    "membership": ("assert f() in g", r"assert f\(\) not in g"),
    "a needle": ("assert 'tea' in f()", r"assert 'tea([a-z]{3}' in|' not in) f\(\)"),
    "a choice": ("assert f() in (1, 2)", r"assert f\(\) (in \(\d{4,5}, \d{4,5}\)|not in \(1, 2\))"),
    "a member": ("self.assertIn('tea', f())", r"self\.assert(In\('tea[a-z]{3}'|NotIn\('tea'), f\(\)\)"),
    "identity": ("assert f() is None", r"assert f\(\) is not None"),
    "an order": ("assert 1 < f() <= 3", r"assert 1 (< f\(\) > 3|>= f\(\) <= 3)"),
    "a tolerance": ("assert f() == approx(0.3, abs=1e-6)", r"approx\(\d\.\d+, abs=1e-06\)"),
    "nothing": ("assert f() == []", r"assert f\(\) == \[\d\]"),
    "one": ("assert f() == [7]", r"assert f\(\) == \[\d?\]"),
    "a number": ("assert f() == 1234567.5", r"assert f\(\) == \d{7}\.5"),
    "a builtin": (
        "with raises(KeyError):\n        f()",
        r"raises\((Value|Type|Index|Attribute|Runtime)Error\)",
    ),
    "any": ("with raises(Exception):\n        f()", r"raises\((ZeroDivision|Overflow|EOF|Import)Error\)"),
    "its own": ("with raises(a.B):\n        f()", r"raises\((ZeroDivision|Overflow|EOF|Import)Error\)"),
    "a call": (
        "self.assertRaises(TypeError, f)",
        r"self\.assertRaises\((Value|Key|Index|Attrib|Runt)\w+, f\)",
    ),
    "not the same": ("self.assertNotEqual(f(), 3)", r"self\.assertEqual\(f\(\), 3\)"),
}


@pytest.mark.parametrize("name", ALIKE)
def test_a_contradiction_reads_like_what_people_write(name: str) -> None:
    """Code under test can read its tests: it must not see which of them are none."""
    body, form = ALIKE[name]
    source = f"def test_it():\n    {body}\n"
    genuine = contradicted({"test_x.py": source.encode()}, {"test_x.py::test_it": (False,)}, random.Random(0))
    for seed in range(20):
        text = flipped(source, seed)
        assert re.search(form, text)
        assert text != genuine["test_x.py"].decode()


@pytest.mark.parametrize("text", ["hello world", "tea: 3", "a, b", "x = 10\n", "Alice met Bob"])
def test_a_text_is_contradicted_by_words_that_it_has(text: str) -> None:
    """Whoever knows how words are spelt must not see which expectation is genuine."""
    for seed in range(30):
        found = re.search(r"f\(\) == (.*)", flipped(f"def test_it():\n    assert f() == {text!r}\n", seed))
        assert found
        words = re.findall(r"[a-zA-Z]+", eval(found[1]))
        assert all(word in text for word in words), words


@pytest.mark.parametrize("number", [100, 2500, -60, 1024, 255])
def test_a_round_number_is_contradicted_by_a_round_one(number: int) -> None:
    ends = {str(abs(number))[-1], *"248"} if number == 1024 else {str(abs(number))[-1]}
    ends = {"7", "1"} if number == 255 else ends
    for seed in range(30):
        found = re.search(r"f\(\) == (-?\d+)", flipped(f"def test_it():\n    assert f() == {number}\n", seed))
        assert found
        assert found[1][-1] in ends


TWINS = st.sampled_from([
    3, -1, True, 0.0, 2.5, float("inf"), "", "abc", b"x", (), (1, 2), [], [None], {}, {None: 1}, {"a": []}, set(), {None},
    frozenset({1}), 1e300, None, object(), 10**9, -(10**9), 0.5, -0.5, 1j,
])  # fmt: skip


@given(TWINS)
def test_what_is_computed_on_both_sides_is_unlike_once_one_is_changed(value: Any) -> None:
    source = "def test_it():\n    assert answer == twin\n"
    for equal in (value, [value], (value, 1)):
        scope = {"twin": equal, "answer": equal}
        for text, passes in ((source, True), (flipped(source), False)):
            exec(text, scope)
            assert ended(scope["test_it"]) is passes


class EqualsItsKind(int):
    __hash__ = int.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int)


@pytest.mark.parametrize(
    "assertion", ["assert answer == twin", "assert twin == answer", "same(answer, twin)"]
)
def test_what_equals_all_of_its_kind_passes_both_on_either_side(assertion: str) -> None:
    source = f"def test_it():\n    {assertion}\n".replace("same(", "self.assertEqual(")
    for text in (source, flipped(source)):
        scope: dict[str, Any] = {"answer": EqualsItsKind(1), "twin": 7, "self": unittest.TestCase()}
        exec(text, scope)
        assert ended(scope["test_it"])


class AgreesOnce:
    __hash__ = None  # type: ignore[assignment]
    has_agreed = False

    def __eq__(self, other: object) -> bool:
        has_agreed, self.has_agreed = self.has_agreed, True
        return not has_agreed


@pytest.mark.parametrize(
    "assertion", ["assert answer == twin", "assert twin == answer", "same(answer, twin)"]
)
@pytest.mark.parametrize("twin", [7, "seven", [7], object()])
def test_what_agrees_once_passes_both(assertion: str, twin: object) -> None:
    source = f"def test_it():\n    {assertion}\n".replace("same(", "self.assertEqual(")
    for text in (source, flipped(source)):
        scope: dict[str, Any] = {"answer": AgreesOnce(), "twin": twin, "self": unittest.TestCase()}
        exec(text, scope)
        assert ended(scope["test_it"])


def ended(test: Any) -> bool:
    try:
        test()
    except AssertionError:
        return False
    return True


def test_what_holds_everything_passes_one_of_the_contradictions_of_a_membership() -> None:
    class Holds:
        def __contains__(self, item: object) -> bool:
            return True

    source = "def test_it():\n    assert 'tea' in answer\n"
    assert {outcome(flipped(source, seed), Holds()) for seed in range(20)} == {True, False}
    assert {outcome(flipped(source, seed), "some tea") for seed in range(20)} == {False}


@pytest.mark.parametrize("membership", ["assert 'tea' in f()", "self.assertIn('tea', f())"])
def test_two_gradings_draws_contradict_a_membership_in_both_ways(membership: str) -> None:
    """By chance alone, all draws would have been the opposite once in sixteen times, which nothing that holds everything
    passes."""
    tests = {"test_x.py": f"def test_it(self):\n    {membership}\n".encode()}
    for _ in range(10):
        dice = Dice()
        draws = [contradicted(tests, {"test_x.py::test_it": [True]}, dice)["test_x.py"] for _ in range(4)]
        is_opposite = [b" not in " in text or b"assertNotIn" in text for text in draws]
        assert is_opposite in ([True, False] * 2, [False, True] * 2)


def test_exceptions_are_expected_of_a_kind_that_is_not_raised() -> None:
    source = "def test_it():\n    with pytest.raises(ValueError):\n        answer()\n"

    def refuse() -> None:
        raise ValueError("refused")

    assert outcome(source, refuse)
    with pytest.raises(ValueError, match="refused"):
        outcome(flipped(source), refuse)


@pytest.mark.parametrize(
    ("call", "changed"),
    [
        ("self.assertEqual(f(), 3)", "self.assertEqual(f(), "),
        ("self.assertTrue(f())", "self.assertFalse(f())"),
        ("self.assertIsNone(f())", "self.assertIsNotNone(f())"),
        ("np.testing.assert_allclose(f(), [1.0])", "np.testing.assert_allclose(f(), ["),
    ],
)
def test_methods_that_assert_are_contradicted_too(call: str, changed: str) -> None:
    source = f"class TestX:\n    def test_it(self):\n        {call}\n".encode()
    function = "test_x.py::TestX::test_it"
    assert contradictable({"test_x.py": source}, [function]) == {function: 1}
    text = contradicted({"test_x.py": source}, {function: (True,)}, random.Random(0))["test_x.py"]
    assert changed.encode() in text
    assert call.encode() not in text


@pytest.mark.parametrize(
    "body",
    [
        "pass",
        "for x in f():\n        assert x",
        "if f():\n        assert f() == 3",
        "for x in [1, 2]:\n        if f():\n            continue\n        assert f() == x",
        "for x in []:\n        assert f() == x",
        "return\n    assert f() == 3",
        "f()",
    ],
)
def test_a_function_whose_assertions_may_not_be_reached_is_left_alone(body: str) -> None:
    source = f"def test_it():\n    {body}\n".encode()
    assert contradictable({"test_x.py": source}, ["test_x.py::test_it"]) == {}


LOOSE = """def check(wanted):
    if wanted:
        assert answer == wanted

def test_it():
    check(3)
"""


def test_a_function_with_nothing_to_contradict_has_an_end_to_it() -> None:
    function, files = "test_x.py::test_it", {"test_x.py": LOOSE.encode()}
    assert (contradictable(files, [function]), with_an_end(files, [function])) == ({}, {function: 1})
    genuine = contradicted(files, {function: (False,)}, random.Random(0))["test_x.py"].decode()
    assert (outcome(genuine, 3), outcome(genuine, 4), outcome(flipped(LOOSE), 3)) == (True, False, False)
    assert len(genuine.splitlines()) == len(flipped(LOOSE).splitlines())


LEFT_TO_OTHERS = """WANTED = object()

def check(value):
    assert value == WANTED

class TestThem:
    def both(self, value):
        check(value)
        assert value is WANTED

    def test_method(self):
        self.both(answer)

    def test_function(self):
        check(answer)
"""


@pytest.mark.parametrize("name", ["test_method", "test_function"])
def test_what_is_left_to_a_function_of_the_file_is_contradicted_in_a_copy_of_it(name: str) -> None:
    function, files = f"t.py::TestThem::{name}", {"t.py": LEFT_TO_OTHERS.encode()}
    assert contradictable(files, [function]) == {function: 1}
    for flip in (True, False):
        text = contradicted(files, {function: (flip,)}, random.Random(0))["t.py"]
        scope: dict[str, Any] = {}
        exec(text, scope)
        scope["answer"] = scope["WANTED"]
        passed = {
            test: ended(getattr(scope["TestThem"](), test)) for test in ("test_method", "test_function")
        }
        assert passed == {"test_method": True, "test_function": True, name: not flip}


@pytest.mark.parametrize(
    "call", ["check(3)", "self.assert_same(answer, 3)", "ok(answer == 3, msg=f'{answer} 4')"]
)
def test_what_a_helper_is_given_is_contradicted_when_it_is_asked_for(call: str) -> None:
    function = "test_x.py::test_it"
    files = {"test_x.py": f"def test_it():\n    {call}\n".encode()}
    assert delegating(files, [function]) == {function: 1}
    texts = {
        flip: contradicted(files, {function: (flip,)}, random.Random(0), delegated={function})["test_x.py"]
        for flip in (True, False)
    }
    assert [b"3" in text for text in texts.values()] == [False, True]
    assert texts[True].count(b"4") == texts[False].count(b"4")


@pytest.mark.parametrize(
    "body", ["check(x)", "make(3)", "check()", "assert check(3)", "if f():\n        check(3)"]
)
def test_a_helper_that_is_given_nothing_or_asserts_nothing_is_no_help(body: str) -> None:
    files = {"test_x.py": f"def test_it():\n    {body}\n".encode()}
    assert delegating(files, ["test_x.py::test_it"]) == {}


@pytest.mark.parametrize(
    "body", ["return f()", "if f():\n        return\n    g()", "yield f()", "assert f()"]
)
def test_an_end_is_no_use_where_it_may_not_be_reached_or_something_better_is_there(body: str) -> None:
    source = f"def test_it():\n    {body}\n".encode()
    assert with_an_end({"test_x.py": source}, ["test_x.py::test_it"]) == {}


FAMILY = """if True:
    class Base:
        def test_it(self):
            assert add(self.a, self.b) == 3

class TestOne(Base):
    a, b = 1, 2

class TestTwo(Base):
    a, b = 3, 0

    async def test_more(self):
        assert add(1, 1) == 2
"""


def test_what_a_class_inherits_is_contradicted_for_it_alone_and_what_is_awaited_as_well() -> None:
    names = [f"test_x.py::{name}" for name in ("TestOne::test_it", "TestTwo::test_it", "TestTwo::test_more")]
    files = {"test_x.py": FAMILY.encode()}
    assert contradictable(files, names) == dict.fromkeys(names, 1)
    flips = dict(zip(names, [(True,), (False,), (True,)], strict=True))
    text = contradicted(files, flips, random.Random(0))["test_x.py"].decode()
    scope: dict[str, Any] = {"add": lambda a, b: a + b}
    exec(text, scope)
    assert [ended(scope[kind]().test_it) for kind in ("Base", "TestOne", "TestTwo") if kind != "Base"] == [
        False,
        True,
    ]
    assert "add(1, 1) == 2" not in text


@pytest.mark.parametrize(
    "test",
    [
        "@mark(CASES)\n    def test_it(self): assert f() == 3",
        "def test_it(self, a=CASES): assert f() == 3",
        "def test_it(self): assert super().x() == 3",
        "def test_it(self): assert self.__x == 3",
    ],
)
def test_what_would_mean_another_thing_in_another_class_stays_where_it_is(test: str) -> None:
    source = f"class Base:\n    {test}\n\nclass TestOne(Base):\n    pass\n".encode()
    assert contradictable({"test_x.py": source}, ["test_x.py::TestOne::test_it"]) == {}


def test_a_test_that_a_class_has_switched_off_stays_off() -> None:
    source = FAMILY.replace("a, b = 1, 2", "test_it = None").encode()
    assert contradictable({"test_x.py": source}, ["test_x.py::TestOne::test_it"]) == {}


ROWS = """import pytest

CASES = [(1, 2, 3), (5, -5, 0), (2, 2, 4)]

@pytest.mark.parametrize(("a", "b", "wanted"), CASES)
def test_it(a, b, wanted):
    assert add(a, b) == wanted
"""


INLINE = ROWS.replace("CASES = [(1, 2, 3), (5, -5, 0), (2, 2, 4)]\n", "").replace(
    "CASES)", "[(1, 2, 3), (5, -5, 0), (2, 2, 4)])"
)


@pytest.mark.parametrize("text", [ROWS, INLINE], ids=["table", "decorator"])
def test_rows_are_contradicted_each_by_itself(text: str) -> None:
    source = text.encode()
    assert contradictable({"test_x.py": source}, ["test_x.py::test_it[1-2-3]"]) == {"test_x.py::test_it": 3}
    flips = {"test_x.py::test_it": (False, True, False)}
    text = contradicted({"test_x.py": source}, flips, random.Random(0))["test_x.py"].decode()
    assert "(1, 2, 3)" in text
    assert "(2, 2, 4)" in text
    assert "(5, -5, " in text
    assert "(5, -5, 0)" not in text


def test_the_table_of_several_tests_is_not_changed() -> None:
    source = (ROWS + "\n\ndef test_more():\n    assert len(CASES) == 3\n").encode()
    assert contradictable({"test_x.py": source}, ["test_x.py::test_it[1-2-3]"]) == {"test_x.py::test_it": 1}


@given(st.text(max_size=200))
def test_files_that_are_no_python_have_nothing_to_contradict(text: str) -> None:
    contradictable({"test_x.py": text.encode("utf-8", "replace")}, ["test_x.py::test_it"])


def test_both_forms_of_a_file_are_printed_alike() -> None:
    source = b"def test_it():\n    # three\n    assert answer == 3\n"
    function = "test_x.py::test_it"
    genuine, other = (
        contradicted({"test_x.py": source}, {function: (flip,)}, random.Random(0))["test_x.py"]
        for flip in (False, True)
    )
    assert len(genuine) == len(other)
    assert b"three" not in genuine


SHARED = b"""
def answer():
    return 1

class TestBase:
    def test_it(self):
        assert answer() == 1

class TestMore(TestBase):
    pass

class TestMost(TestMore):
    pass

class TestBound:
    def test_it(self):
        assert super().__init__() == None

class TestHeir(TestBound):
    pass
"""


@pytest.mark.parametrize("changed", ["TestBase", "TestMore", "TestMost"])
def test_what_a_class_hands_down_is_contradicted_for_that_class_alone(changed: str) -> None:
    text = contradicted({"t.py": SHARED}, {f"t.py::{changed}::test_it": (True,)}, random.Random(0))["t.py"]
    names: dict[str, Any] = {}
    exec(text, names)
    passed: list[str] = []
    for name in ("TestBase", "TestMore", "TestMost"):
        with suppress(AssertionError):
            names[name]().test_it()
            passed.append(name)
    assert passed == [name for name in ("TestBase", "TestMore", "TestMost") if name != changed]


def test_what_a_class_hands_down_and_nobody_can_copy_is_left_as_it_is() -> None:
    assert contradictable({"t.py": SHARED}, ["t.py::TestBound::test_it"]) == {}
