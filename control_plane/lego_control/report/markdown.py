"""Parts as Markdown: figures are tables of their numbers, a model's text is in indented blocks, the rest is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lego_control.report.page import numbers
from lego_control.report.parts import Part, Table

_SPECIAL = re.compile(r"([\\`*_\[\]|#!~])")


def markdown(title: str, parts: Sequence[Part]) -> str:
    """The whole file."""
    return "\n".join([f"# {escape(title)}", "", *(line for part in parts for line in _part(part))]) + "\n"


def escape(text: str) -> str:
    """Text that stays text, in a cell too."""
    safe = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", safe).replace("\n", " ")


def _part(part: Part) -> Iterator[str]:
    yield from (f"## {escape(part.title)}", "")
    if part.says:
        yield from (escape(part.says), "")
    if part.missing:
        yield from (f"Not here: {escape(part.missing)}.", "")
    for table in (*part.tables, *map(numbers, part.figures)):
        yield from _table(table)
    for heading, text in part.quotes:
        yield from (f"### {escape(heading)}", "", *(f"    {line}" for line in text.split("\n")), "")


def _table(table: Table) -> Iterator[str]:
    yield _row(table.headers)
    yield "|" + " --- |" * len(table.headers)
    yield from map(_row, table.rows)
    yield ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(escape, cells)) + " |"
