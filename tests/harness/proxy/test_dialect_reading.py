"""What was read before changes the cost of a request and never its meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_harness.proxy.conversation import Request
from lego_harness.proxy.dialects.base import Dialect
from lego_harness.proxy.dialects.body import MAX_PARTS, read_json
from lego_harness.proxy.dialects.chat import ChatDialect
from lego_harness.proxy.dialects.messages import MessagesDialect
from lego_harness.proxy.dialects.reader import MAX_REMEMBERED, Reader
from lego_harness.proxy.dialects.responses import ResponsesDialect
from tests.support.wire_bodies import bodies

CHAT, MESSAGES, RESPONSES = ChatDialect(), MessagesDialect(), ResponsesDialect()


def exact(request: Request) -> str:
    """A text that differs wherever two requests do."""
    told = [request.messages, request.tools, request.asked, request.fingerprint, request.model]
    return json.dumps([*told, request.stream, repr(request.call_forms)])


@settings(max_examples=60)
@pytest.mark.parametrize("dialect", [CHAT, MESSAGES, RESPONSES], ids=lambda d: d.name)
@given(data=st.data())
def test_a_request_means_the_same_whatever_was_read_before_it(dialect: Dialect, data: st.DataObject) -> None:
    reader = Reader()
    for body in data.draw(bodies(dialect)):
        raw = json.dumps(body, ensure_ascii=data.draw(st.booleans())).encode()
        assert exact(reader.read(dialect, raw)) == exact(Reader().read(dialect, raw))


@settings(max_examples=60)
@pytest.mark.parametrize("dialect", [CHAT, MESSAGES, RESPONSES], ids=lambda d: d.name)
@given(data=st.data())
def test_what_two_requests_begin_with_are_the_same_objects(dialect: Dialect, data: st.DataObject) -> None:
    first, second = data.draw(bodies(dialect))[:2]
    first = {key: value for key, value in second.items() if key != dialect.grows} | {
        dialect.grows: first[dialect.grows]
    }
    second = {key: second[key] for key in first}
    shared = 0
    for one, other in zip(first[dialect.grows], second[dialect.grows], strict=False):
        if json.dumps(one) != json.dumps(other):
            break
        shared += 1
    reader = Reader()
    held = reader.read(dialect, json.dumps(first).encode())
    new = reader.read(dialect, json.dumps(second).encode())
    assert (new.tools is held.tools) == (json.dumps(new.tools) == json.dumps(held.tools))
    if shared:
        common = dialect.fold({**second, dialect.grows: second[dialect.grows][:shared]}).messages
        for wanted, old, now in zip(common, held.messages, new.messages, strict=False):
            if not json.dumps(wanted) == json.dumps(old) == json.dumps(now):
                break
            assert now is old


@settings(max_examples=60)
@pytest.mark.parametrize("dialect", [CHAT, MESSAGES, RESPONSES], ids=lambda d: d.name)
@given(data=st.data())
def test_a_body_that_was_parsed_elsewhere_folds_to_the_same(dialect: Dialect, data: st.DataObject) -> None:
    earlier = None
    for body in data.draw(bodies(dialect)):
        request = dialect.fold(body, earlier)
        assert exact(request) == exact(dialect.fold(body))
        earlier = request.folded


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.lists(st.tuples(st.sampled_from(["a", "b", "list"]), JSON | st.lists(JSON)), max_size=4)


def written(fields: list[tuple[str, Any]], blank: str, *, is_ascii: bool) -> bytes:
    """An object whose keys may come twice."""
    told = (
        f"{blank}{json.dumps(key)}{blank}:{json.dumps(value, ensure_ascii=is_ascii)}" for key, value in fields
    )
    return f"{{{f'{blank},'.join(told)}{blank}}}".encode("utf-8", "surrogatepass")


@given(
    old=FIELDS,
    cut=st.integers(0, 4),
    new=FIELDS,
    blank=st.sampled_from(["", " ", "\n\t"]),
    is_ascii=st.booleans(),
)
def test_bytes_that_were_read_before_have_the_value_they_had(
    old: list[Any], cut: int, new: list[Any], blank: str, is_ascii: bool
) -> None:
    earlier = read_json(written(old, blank, is_ascii=is_ascii), "list")
    grown = [(key, [*value, *value] if isinstance(value, list) else value) for key, value in old[cut:]]
    for fields in ([*old[:cut], *new], [*old[:cut], *grown], old):
        raw = written(fields, blank, is_ascii=is_ascii)
        assert repr(read_json(raw, "list", earlier.overlap(raw)).value) == repr(json.loads(raw))


def conversation(name: str, num_turns: int) -> bytes:
    turns = [{"role": "user", "content": f"{name} {i}"} for i in range(num_turns)]
    return json.dumps({"messages": [{"role": "system", "content": "s"}, *turns]}).encode()


def test_conversations_that_take_turns_are_each_read_once() -> None:
    reader = Reader()
    before = {name: reader.read(CHAT, conversation(name, 1)) for name in "abc"}
    for num_turns in (2, 3, 4):
        for name, held in before.items():
            request = reader.read(CHAT, conversation(name, num_turns))
            assert all(new is old for new, old in zip(request.messages, held.messages, strict=False))
            before[name] = request


def test_more_conversations_than_are_remembered_are_still_understood() -> None:
    reader = Reader()
    names = [f"n{i}" for i in range(3 * MAX_REMEMBERED)]
    for num_turns in (1, 2):
        for name in names:
            request = reader.read(CHAT, conversation(name, num_turns))
            assert request.messages[-1]["content"] == f"{name} {num_turns - 1}"


def test_signs_within_a_text_are_no_values() -> None:
    text = '[1, "{\\n", 2]' * MAX_PARTS
    raw = json.dumps({"messages": [{"role": "user", "content": text}]}).encode()
    assert Reader().read(CHAT, raw).messages[0]["content"] == text


def test_a_request_in_another_dialect_is_read_by_itself() -> None:
    reader = Reader()
    raw = conversation("a", 2)
    chat, messages = reader.read(CHAT, raw), reader.read(MESSAGES, raw)
    assert chat.messages == messages.messages
    assert chat.fingerprint != messages.fingerprint
