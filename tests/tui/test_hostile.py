"""Whatever lies in a run directory, the display shows it safely and goes on."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from lego_control.show import draw
from lego_core.store import RunReader, RunWriter
from lego_tui.feed.run import RunFeed
from lego_tui.feed.trajectory import unpack
from lego_tui.progress import LineDisplay
from lego_tui.safe import clean, fit, one_line, wrap
from lego_tui.tail_lines import line as tail_line
from lego_tui.tail_lines import news
from tests.support.runs import recipe, step, trajectory, write_run
from tests.support.watching import Watched, watched

pytestmark = pytest.mark.long

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x1b]52;c;cm0gLXJm\x07\x9b31m\rgone\x08\x00"
TURNED = "safe \u202etxt.exe\u202c \u2066hidden\u2069 שלום עולם \u200b\u200dzero"
PAGES = "12345678"


def hostile_message(text: str) -> dict[str, object]:
    call = {"type": "function", "id": "c", "function": {"name": text[:40], "arguments": {"command": text}}}
    return {"role": "assistant", "content": text, "reasoning_content": text, "tool_calls": [call, None, 7]}


def write_hostile(runs_dir: Path, text: str) -> Path:
    nan, inf = float("nan"), float("inf")
    writer = RunWriter.create(runs_dir, recipe())
    writer.event("stage", stage=text)
    writer.event(text[:60], **{text[:30]: text, "nested": {"a": [text]}})
    messages = (
        hostile_message(text),
        {"role": text[:20], "content": [{"text": text}, text]},
        {"role": "tool", "content": text},
    )
    record = trajectory("s00001.g00.r0", messages=messages, patch=text, error=text, task_id=text[:50])
    writer.append_trajectory(record, step=1)
    writer.append_step(
        replace(step(1), loss=nan, grad_norm=inf, entropy=-inf, kl_loss=1e308, dropped={text[:20]: 1})
    )
    writer.append_step(
        replace(
            step(2), reward_mean=None, pearson_r=None, loss=None, grad_norm=inf, entropy=nan, kl_loss=None
        )
    )
    writer.close("failed", text)
    return writer.layout.root


async def look_everywhere(hand: Watched) -> str:
    """Every screen and view; the text of all of them."""
    seen = [await hand.press(key) for key in PAGES]
    hand.app.open_rollout("s00001.g00.r0")
    seen += [await hand.press(key) for key in ("t", "t", "d", "i", "i", "r", "l", "question_mark")]
    return "\n".join(seen)


def is_safe(char: str) -> bool:
    return char == "\n" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


@pytest.mark.parametrize("text", [ESCAPES, TURNED, "\ud800 lone", "e\u0301" * 50, "界" * 300, ""], ids=["escapes", "turned", "surrogate", "combining", "wide", "empty"])  # fmt: skip
@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
async def test_what_a_model_wrote_reaches_no_terminal_as_a_command(
    tmp_path: Path, text: str, size: tuple[int, int]
) -> None:
    async with watched(write_hostile(tmp_path, text), size) as hand:
        shown = await look_everywhere(hand)
        assert all(is_safe(char) for char in shown)
        assert hand.app.is_running


def test_half_a_character_costs_neither_its_line_nor_its_rollout(tmp_path: Path) -> None:
    feed = RunFeed(write_hostile(tmp_path, "a \\ud800 b \ud800 c \ud83d\ude00 \udc00"))
    feed.poll()
    rollout = feed.load(feed.index.entry(0))
    assert (list(feed.complaints), rollout.complaint) == ([], "")
    assert rollout.patch == "a \\ud800 b \ufffd c \U0001f600 \ufffd"


async def test_a_megabyte_on_one_line_is_shown_in_part_and_counted(tmp_path: Path) -> None:
    async with watched(write_hostile(tmp_path, "x" * 2**20)) as hand:
        await look_everywhere(hand)
        hand.app.open_rollout("s00001.g00.r0")
        await hand.settle()
        rows = hand.app.page._rows
        assert any("more characters on this line" in row.text for row in rows)
        assert len(rows) < 20_000


async def test_numbers_that_are_none_are_said_to_be(tmp_path: Path) -> None:
    async with watched(write_hostile(tmp_path, "x"), (120, 60)) as hand:
        text = await hand.press("5")
        for name in ("loss", "grad_norm", "entropy"):
            assert f"{name} is not a number" in text
        await hand.press("2", "left")
        assert "∞" in hand.text
        await hand.press("colon")
        assert "━ grad_norm" in await hand.type("metric grad_norm")


async def test_a_run_of_a_newer_release_is_shown_as_far_as_understood(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    info = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**info, "format": 99, "novel": [1]}))
    for name in ("steps.jsonl", "events.jsonl", "trajectories/index.jsonl"):
        lines = (run / name).read_text().splitlines()
        (run / name).write_text(
            "".join(json.dumps({**json.loads(line), "novel": {"x": 1}}) + "\n" for line in lines)
        )
    async with watched(run, (120, 40)) as hand:
        assert "layout 99" in await hand.press("5")
        assert "0.100" in await hand.press("2")
        assert "g00" in await hand.press("3")


async def test_broken_lines_are_counted_named_and_passed_over(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    for name, line in (("steps.jsonl", "{"), ("events.jsonl", "[]"), ("heldout.jsonl", '{"step": "x"}'), ("trajectories/index.jsonl", '{"id": "a", "file": "../../etc/passwd", "offset": 0, "length": 9}')):  # fmt: skip
        with (run / name).open("a") as file:
            file.write(line + "\n")
    async with watched(run, (120, 40)) as hand:
        text = await hand.press("5")
        assert "4 lines could not be read" in text
        assert "steps.jsonl:4" in text


@pytest.mark.parametrize(
    "odd", [{"step": 3_000_000_000}, {"step": -2}, {"sampled": 2**63}, {"offset": 2**63}, {"length": 2**63}]
)
def test_an_index_line_of_impossible_numbers_moves_no_other_rollout(
    tmp_path: Path, odd: dict[str, int]
) -> None:
    run = write_run(tmp_path)
    path = run / "trajectories/index.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([first, json.dumps(json.loads(first) | {"id": "odd"} | odd), *rest]) + "\n")
    feed = RunFeed(run)
    feed.poll()
    found = [feed.index.entry(row) for row in range(len(feed.index))]
    assert [entry.id for entry in found] == [json.loads(line)["id"] for line in (first, *rest)]
    assert [feed.load(entry).complaint for entry in found] == [""] * len(found)
    assert feed.num_broken == 1


@pytest.mark.parametrize("time", [1e20, -1e20, 1e308])
def test_an_event_of_no_time_is_a_line_of_the_tail(tmp_path: Path, time: float) -> None:
    run = write_run(tmp_path)
    with (run / "events.jsonl").open("a") as file:
        file.write(json.dumps({"time": time, "kind": "odd", "fields": {"a": 1}}) + "\n")
    feed = RunFeed(run)
    told = [tail_line(item, feed).plain for item in news(feed, last=None, follow=False)]
    assert [text for text in told if "odd: a 1" in text] == ["? odd: a 1"]


@pytest.mark.parametrize("text", [ESCAPES, TURNED, "[bold]x[/bold] [link=https://evil.example]y[/link]"])
def test_why_a_run_ended_and_what_its_core_said_reach_a_terminal_safely(tmp_path: Path, text: str) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.close("failed", text)
    console = Console(file=StringIO(), force_terminal=True, color_system=None, width=400)
    draw(RunReader(writer.layout.root), console)
    with LineDisplay(console) as plain:
        plain.note(text)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert said.count(one_line(text)) == 2
    assert not {"\x1b", "\x9b", "\x07", "\u202e", "\u200b"} & set(said)


def test_names_of_a_hostile_run_reach_no_screen_as_they_are(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.append_step(step(1, dropped={ESCAPES: 1}, masked={TURNED: 1}))
    run = writer.layout.root
    entry = {"file": "00001.zst", "offset": 0, "length": 1, "step": 1, "task": "t", "stop_reason": ESCAPES}
    with (run / "trajectories/index.jsonl").open("a") as file:
        file.writelines(json.dumps({"id": name, **entry}) + "\n" for name in (ESCAPES, "s00001.g00.r0"))
    feed = RunFeed(run)
    feed.poll()
    (row,) = [feed.index.entry(row) for row in range(len(feed.index))]
    assert [text for text in (*feed.steps.names, row.id, row.stop_reason) if not text.isprintable()] == []
    assert feed.num_broken == 1


@pytest.mark.parametrize(
    ("packed", "shape"),
    [({"dtype": "<i4", "shape": [], "data": "AAAAAA=="}, "no axis"), ({"dtype": "<U1", "shape": [1], "data": "AAAAAA=="}, "text")],
)  # fmt: skip
def test_an_array_that_is_no_row_of_numbers_is_empty(packed: dict[str, object], shape: str) -> None:
    assert unpack(msgspec.Raw(json.dumps(packed).encode())).shape == (0,), shape


async def test_a_step_of_any_number_costs_no_more_than_another(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    path = run / "trajectories/index.jsonl"
    first = json.loads(path.read_text().splitlines()[0])
    with path.open("a") as file:
        file.write(json.dumps(first | {"id": "s2147483647.g00.r0", "step": 2**31 - 1}) + "\n")
    async with watched(run, (120, 40)) as hand:
        assert "completed" in await hand.press("6")


@pytest.mark.parametrize("gone", ["steps.jsonl", "heldout.jsonl", "events.jsonl", "trajectories/index.jsonl", "trajectories/00001.zst", "writer.lock", "run.json"])  # fmt: skip
async def test_a_missing_file_is_no_crash(tmp_path: Path, gone: str) -> None:
    run = write_run(tmp_path)
    feed = RunFeed(run)
    (run / gone).unlink()
    feed.poll()
    assert feed.complaints == type(feed.complaints)(maxlen=20)
    if gone == "run.json":
        assert feed.status == "unreadable"
        return
    async with watched(run) as hand:
        await look_everywhere(hand)
        assert hand.app.is_running


async def test_a_broken_frame_says_so_on_its_screen(tmp_path: Path) -> None:
    run = write_run(tmp_path)
    (run / "trajectories" / "00001.zst").write_bytes(b"\x28\xb5\x2f\xfd" + b"\xff" * 4000)
    async with watched(run, (120, 30)) as hand:
        hand.app.open_rollout("s00001.g00.r0")
        await hand.settle()
        assert "00001.zst at 0" in hand.text


@given(st.text(alphabet=st.characters()), st.integers(4, 60))
def test_cleaned_text_holds_nothing_odd_and_its_lines_fit(text: str, width: int) -> None:
    assert all(is_safe(char) for char in clean(text))
    assert all(cell_len(line) <= max(width, 4) for line in wrap(text, width) if not line.startswith("…"))
    assert cell_len(fit(clean(one_line(text)), width)) == width
    assert "\n" not in one_line(text)
