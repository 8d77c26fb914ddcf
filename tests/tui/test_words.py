"""Numbers and curves as a person reads them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_tui.words import chart, duration, number, percent, small, sparkline

measured = st.none() | st.floats()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1:00 min"),
        (365, "6:05 min"),
        (3599.6, "1:00 h"),
        (7620, "2:07 h"),
        (None, "–"),
        (math.inf, "–"),
    ],
)
def test_durations_read_naturally(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_a_sparkline_rises_with_its_values() -> None:
    assert sparkline([0, 0.25, 0.5, None, 1]) == "▁▃▅ █"
    assert sparkline([0] * 50 + [1], width=3) == "▁▁█"


def test_a_chart_stacks_columns_over_an_axis() -> None:
    assert chart([0, 0.5, 1, None, 0.25], height=2) == ["1.0 ┤  █  ", "0.5 ┤ ██ ▄", "    └─────"]


@given(st.lists(measured, max_size=100), st.integers(1, 60), st.integers(1, 12))
def test_drawings_keep_their_size_whatever_was_measured(
    values: list[float | None], width: int, height: int
) -> None:
    columns = min(len(values), width)
    assert len(sparkline(values, width)) == columns
    lines = chart(values, width=width, height=height)
    assert [len(line) for line in lines] == [5 + columns] * (height + 1)


@given(measured)
def test_no_number_reads_as_nan_or_infinity(value: float | None) -> None:
    for text in (number(value), small(value), percent(value), duration(value)):
        assert "nan" not in text
        assert "inf" not in text
