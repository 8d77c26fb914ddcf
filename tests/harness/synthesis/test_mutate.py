"""A fault is one edit of a function's own text, and the rest of its file is byte for byte what it was."""

from __future__ import annotations

import ast
import bisect
import inspect
import textwrap
import types
from collections.abc import Iterator

import pytest

from lego_harness.synthesis.mutate import faults

SHORT, LONG = (inspect.getsource(module).encode() for module in (bisect, textwrap))


def said(source: str) -> set[tuple[str, str]]:
    """Kind and the function's last line with each fault."""
    data = source.encode()
    found = ((fault.kind, fault.applied(data)) for fault in faults("m.py", data))
    return {(kind, text.decode().splitlines()[-1].strip()) for kind, text in found if text}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a < b", {("comparison", "return a <= b")}),
        ("return (a)  not  in (b)", {("comparison", "return (a)  in (b)")}),
        ("return a is not b", {("comparison", "return a is b")}),
        ("return a and b", {("logic", "return a or b")}),
        ("return a - b", {("arithmetic", "return a + b")}),
        ("return a[1]", {("constant", "return a[2]")}),
        ("return True", {("constant", "return False")}),
        ("return f(a, *b)", set()),
        ("return a(b, é)", {("argument", "return a(é, b)")}),
        ("return a(b, b)", set()),
        ("if a: b()", {("condition", "if not (a): b()"), ("dropped", "pass"), ("dropped", "if a: pass")}),
        ("raise a", {("dropped", "pass")}),
        ("'''Returns 1 + 1.'''", set()),
        ("return f'{a + b}'", set()),
        ("return (lambda x: x + b)", {("arithmetic", "return (lambda x: x - b)")}),
    ],
)
def test_a_function_gets_the_faults_of_its_text(line: str, expected: set[tuple[str, str]]) -> None:
    assert said(f"def f(a, b):\n    {line}\n") == expected


def test_decorators_and_defaults_are_not_the_functions_own() -> None:
    assert said("@cache(1 + 1)\ndef f(a=1 + 1):\n    return a\n") == set()


def test_every_fault_parses_and_changes_one_place() -> None:
    made = [(fault, text) for fault in faults("m.py", SHORT) if (text := fault.applied(SHORT))]
    assert len(made) > 30
    for fault, text in made:
        ast.parse(text)
        assert text[: fault.edit.start] == SHORT[: fault.edit.start]
        assert text.endswith(SHORT[fault.edit.end :])


def test_a_fault_names_its_function_as_code_objects_do() -> None:
    known = {(code.co_qualname, code.co_firstlineno) for code in _codes(compile(LONG, "m.py", "exec"))}
    assert {(fault.function, fault.line) for fault in faults("m.py", LONG)} <= known


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _codes(inner)


@pytest.mark.parametrize("source", [b"def f(:\n", b"def f():\r\n    return 1\r\n", b"\xff", b"\0"])
def test_a_file_that_cannot_be_read_or_counted_in_lines_has_none(source: bytes) -> None:
    assert faults("m.py", source) == []
