"""The compare screen says how far runs are apart and how sure that is, as `lego compare` does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_control.cli import main
from lego_core.store import RunWriter
from lego_tui.intervals import apart, difference, mean
from tests.support.runs import recipe, step
from tests.support.watching import watched

SHIFT = 0.25


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two runs of twelve noisy steps; the second earns more."""
    for name, more in (("a", 0.0), ("b", SHIFT)):
        with RunWriter.create(tmp_path / "runs", recipe(run={"name": name})) as writer:
            for number in range(1, 13):
                writer.append_step(step(number, reward_mean=0.3 + more + 0.02 * (number % 3), dropped={"ungraded:timeout": number % 2 + 2 * int(more > 0)}))  # fmt: skip
    return tmp_path / "runs"


def numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"[-+]?\d+\.?\d*(?:e[-+]?\d+)?", text)]


async def compared(runs: Path, size: tuple[int, int]) -> dict[str, str]:
    """The lines of the screen by their metric."""
    async with watched(runs, size) as hand:
        text = await hand.press("space", "j", "space", "c")
    return {line[:24].strip(): line[26:] for line in text.splitlines()}


@pytest.mark.parametrize("size", [(80, 45), (140, 45)])
async def test_an_interval_stands_beside_the_means_and_is_that_of_lego_compare(
    runs: Path, size: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    shown = await compared(runs, size)
    first, second, delta, low, high = numbers(shown["reward_mean"])
    assert abs(delta) == pytest.approx(SHIFT, abs=1e-3)
    assert delta == pytest.approx(second - first, abs=2e-3)
    assert low < delta < high
    folders = sorted(map(str, runs.iterdir()), reverse=first > second)
    assert main(["compare", *folders, "--json"]) == 0
    parts = {part["id"]: part for part in json.loads(capsys.readouterr().out)["parts"]}
    rows = {row[0]: row for row in parts["metrics"]["tables"][0]["rows"]}
    assert (delta, low, high) == pytest.approx(numbers(rows["reward_mean"][3]), rel=5e-3)


async def test_shares_are_apart_by_points(runs: Path) -> None:
    first, second, delta, *_ = numbers((await compared(runs, (140, 45)))["timeout share"])
    assert delta == pytest.approx(second - first, abs=0.11)
    assert abs(delta) > 1


async def test_a_narrow_terminal_keeps_the_means(runs: Path) -> None:
    assert len(numbers((await compared(runs, (60, 45)))["reward_mean"])) == 2


ANY = st.lists(st.floats(-1e308, 1e308), min_size=5, max_size=9)


@given(ANY, ANY)
def test_no_value_is_too_large_for_a_comparison(a: list[float], b: list[float]) -> None:
    assert difference(a, b)
    assert min(a) - 1e-9 * abs(min(a)) - 1e-9 <= mean(a) <= max(a) + 1e-9 * abs(max(a)) + 1e-9


def test_an_interval_of_huge_values_is_that_of_small_ones_in_other_units() -> None:
    a, b = [0.1, 0.2, 0.3, 0.2, 0.1], [0.5, 0.4, 0.6, 0.5, 0.4]
    delta, error = apart(a, b)
    assert error is not None
    assert (delta, error) == pytest.approx((0.3, 1.96 * (2 * 0.007 / 5) ** 0.5))
    huge = apart([1e200 * value for value in a], [1e200 * value for value in b])
    assert huge == pytest.approx((1e200 * delta, 1e200 * error))


async def test_tasks_that_both_met_are_paired_as_lego_compare_pairs_them(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with watched(demo, (140, 160)) as hand:
        text = await hand.press("space", "j", "space", "c")
    names = [name.strip(" ━") for name in re.findall(r"━ \S+", text.splitlines()[1])]
    capsys.readouterr()
    assert main(["compare", *(str(demo / name) for name in names), "--json"]) == 0
    parts = {part["id"]: part for part in json.loads(capsys.readouterr().out)["parts"]}
    told, rows = numbers(parts["tasks"]["says"]), parts["tasks"]["tables"][0]["rows"]
    shown = {line[:24].strip(): line[26:] for line in text.splitlines()}
    (paired,) = (line for name, line in shown.items() if name == "tasks both met, points")
    count, mean, _, low, high, better, worse = told
    assert numbers(paired) == pytest.approx([better, worse, count, mean, low, high])
    for task, first, second, points in rows:
        assert shown[f"task {task}"].split()[:3] == [first.replace(" ", ""), second.replace(" ", ""), points]
