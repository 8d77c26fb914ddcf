"""Every key does what the help screen says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Input

from lego_core.health.findings import Finding
from lego_core.store import RunWriter
from lego_core.store.mailbox import Asked, requests
from lego_tui.app import PAGES as PAGE_CLASSES
from lego_tui.app import Watch
from lego_tui.help_text import GLOBAL, PAGES
from lego_tui.palette import THEMES
from lego_tui.screens.page import Page
from lego_tui.widgets.lines import Lines
from tests.support.runs import recipe, step
from tests.support.watching import watched

pytestmark = pytest.mark.long


async def test_numbers_lead_to_screens_and_escape_back(demo: Path) -> None:
    async with watched(demo) as hand:
        for key, title in zip(
            "12345678",
            ("Fleet", "Run", "Step", "Trajectory", "Health", "Sandboxes", "Pool", "Review"),
            strict=True,
        ):
            assert f"LEGO  {title}" in await hand.press(key)
        assert "LEGO  Run" in await hand.press("escape")
        assert "LEGO  Fleet" in await hand.press("escape")
        assert "LEGO  Fleet" in await hand.press("escape")


async def test_enter_goes_from_the_fleet_to_a_single_rollout(demo: Path) -> None:
    async with watched(demo) as hand:
        assert "LEGO  Run ▸ misaligned-routes" in await hand.press("enter")
        assert "LEGO  Step" in await hand.press("enter")
        assert "LEGO  Group" in await hand.press("enter")
        assert "s00012.g00.r0" in await hand.press("enter")
        for title in ("Group", "Step", "Run", "Fleet"):
            assert f"LEGO  {title}" in await hand.press("escape")


async def test_the_cursor_moves_by_letters_arrows_and_pages(demo: Path) -> None:
    async with watched(demo) as hand:
        lines = hand.app.page.query_one("#fleet-lines")
        for keys, at in ((("j",), 1), (("down",), 2), (("k",), 1), (("up",), 0), (("end",), 4), (("home",), 0), (("G",), 4), (("pageup",), 0), (("pagedown",), 4)):  # fmt: skip
            await hand.press(*keys)
            assert lines.cursor == at, keys


async def test_screen_keys_and_commands_are_about_the_run_under_the_cursor(demo: Path) -> None:
    async with watched(demo, (120, 30)) as hand:
        assert "Sandboxes ▸ collapse" in await hand.press("down", "down", "6")
        await hand.press("escape", "escape", "up")
        assert "Health ▸ reward-hack" in await hand.press("5")
        await hand.press("escape", "escape", "down", "down", "colon")
        assert "▸ environment-failure ▸ step 3" in await hand.type("step 3")


async def test_sorting_and_pinning_keep_the_cursor_on_its_run(demo: Path) -> None:
    async with watched(demo, (120, 30)) as hand:
        assert "run↑" not in await hand.press("down", "down")
        page = hand.app.page
        assert "run↑" in await hand.press("full_stop")
        assert (page._shown[0].name, page.selected().name) == ("collapse", "collapse")
        await hand.press("o", "down", "p")
        assert page._shown[0] is page.selected()
        assert "reward↓" in await hand.press("full_stop", "full_stop", "full_stop", "full_stop")


async def test_each_run_opens_on_its_reward(demo: Path) -> None:
    async with watched(demo, (120, 30)) as hand:
        await hand.press("enter", "j", "j", "g", "x")
        assert "(log, smoothed)" in hand.text
        text = await hand.press("escape", "down", "enter")
        assert "━ reward_mean" in text
        assert "(log" not in text
        assert hand.app.state.metric == "reward_mean"


async def test_the_run_screen_says_of_which_step_its_values_are(demo: Path) -> None:
    async with watched(demo, (120, 30)) as hand:
        assert "newest  over" in await hand.press("2")
        await hand.press("colon")
        await hand.type("open s00002.g01.r3")
        assert "step 2  over" in await hand.press("2")


async def test_the_mouse_chooses_and_opens(demo: Path) -> None:
    async with watched(demo) as hand:
        await hand.pilot.click("#fleet-lines", offset=(3, 3))
        await hand.settle()
        assert hand.app.page.query_one("#fleet-lines").cursor == 2
        await hand.pilot.click("#fleet-lines", offset=(3, 3))
        await hand.settle()
        assert "LEGO  Run ▸ collapse" in hand.text


async def test_a_filter_keeps_or_leaves_out_and_escape_clears_it(demo: Path) -> None:
    async with watched(demo) as hand:
        await hand.press("slash")
        await hand.type("coll")
        assert [run.name for run in hand.app.page._shown] == ["collapse"]
        assert "  healthy  " in await hand.press("escape")
        await hand.press("slash")
        await hand.type("!collapse")
        assert [run.name for run in hand.app.page._shown] == [
            "misaligned-routes", "reward-hack", "environment-failure", "healthy",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("step 3", "▸ step 3"),
        ("metric grad", "grad_norm"),
        ("open s00002.g01.r3", "s00002.g01.r3"),
        ("run coll", "▸ collapse"),
        ("pool", "LEGO  Pool"),
        ("recipe", "train.learning_rate"),
        (":step 3", "▸ step 3"),
        ("theme lego-light", "theme lego-light"),
        ("step 99", "no step '99' here"),
        ("metric nothing", "no metric"),
        ("open x", "no rollout 'x'"),
        ("run zzz", "no run 'zzz'"),
        ("theme x", "themes: lego-dark"),
        ("stop", "read-only"),
        ("dance", "no command 'dance'"),
    ],
)
async def test_a_command_does_what_it_says_or_says_why_not(demo: Path, command: str, shown: str) -> None:
    async with watched(demo, (120, 30)) as hand:
        await hand.press("2", "colon")
        text = await hand.type(command)
        assert shown in text or (shown.startswith("theme l") and hand.app.theme == "lego-light")


async def test_columns_sort_and_the_order_turns(demo: Path) -> None:
    async with watched(demo) as hand:
        await hand.press("7")
        page = hand.app.page
        names = [row.task for row in page._rows]
        await hand.press("o")
        assert [row.task for row in page._rows] == names[::-1]
        await hand.press("full_stop", "full_stop", "full_stop")
        last = [row.last for row in page._rows]
        assert last == sorted(last, reverse=True)
        await hand.press("comma", "comma", "comma", "o")
        assert [row.task for row in page._rows] == names


async def test_follow_and_brackets_and_arrows_choose_the_step(demo: Path) -> None:
    async with watched(demo) as hand:
        assert "step 12 (newest)" in await hand.press("2")
        assert "step 10" in await hand.press("left", "left")
        assert "step 11" in await hand.press("right")
        assert "step 10" in await hand.press("3", "left_square_bracket")
        assert "step 11" in await hand.press("right_square_bracket")
        assert "step 12 (newest)" in await hand.press("f")


async def test_copy_gives_the_handle_of_what_is_selected(demo: Path) -> None:
    async with watched(demo) as hand:
        await hand.press("2", "3", "y")
        assert hand.app.clipboard == "s00012.g00"
        await hand.press("enter", "j", "y")
        assert hand.app.clipboard == "s00012.g00.r1"


async def test_themes_follow_each_other(demo: Path) -> None:
    async with watched(demo) as hand:
        seen = [hand.app.theme]
        for _ in THEMES[1:]:
            await hand.press("T")
            seen.append(hand.app.theme)
        assert tuple(seen) == THEMES


async def test_help_comes_from_everywhere_and_goes_back_there(demo: Path) -> None:
    async with watched(demo, (120, 90)) as hand:
        text = await hand.press("5", "question_mark")
        for key, what in (*GLOBAL, *(pair for pairs in PAGES.values() for pair in pairs)):
            assert what in text, key
        assert "LEGO  Health" in await hand.press("escape")


NAMED = {
    "escape": "esc", "slash": "/", "colon": ":", "question_mark": "?", "comma": ",", "full_stop": ".", "left": "←",
    "right": "→", "left_square_bracket": "[", "right_square_bracket": "]", "pagedown": "PgDn", "pageup": "PgUp",
    "home": "Home", "end": "End", "up": "arrows", "down": "arrows",
}  # fmt: skip
SECOND_NAMES = {"G", "space"}
"""Of End and PgDn; where a space marks a run, help says so."""


def bound(holder: type) -> set[str]:
    """The keys of a page, a widget or the whole display."""
    return {key for binding in holder.BINDINGS for key in binding.key.split(",")}  # type: ignore[attr-defined] (of Textual)


@pytest.mark.parametrize("page", PAGE_CLASSES, ids=lambda page: page.NAME)
def test_every_key_is_in_the_help(page: type[Page]) -> None:
    told = " ".join(keys for keys, _ in (*GLOBAL, *PAGES.get(page.NAME, ()))).split()
    explained = {word.strip(",") or word for word in told}
    everywhere = (bound(Watch) | bound(Lines)) - set("12345678") - SECOND_NAMES
    arrows = {"left", "right"} if page.NAME == "trajectory" else set[str]()  # beside h and l
    missing = {NAMED.get(key, key) for key in everywhere | bound(page) - arrows} - explained
    assert missing == set()


async def test_a_space_is_a_page_further_where_it_marks_nothing(demo: Path) -> None:
    async with watched(demo) as hand:
        await hand.press("2", "space")
        moved = hand.app.page.query_one(Lines).cursor
        assert moved > 1
        await hand.press("home", "pagedown")
        assert hand.app.page.query_one(Lines).cursor == moved


async def test_escape_leaves_the_prompt_and_takes_the_filter_back(demo: Path) -> None:
    async with watched(demo) as hand:
        await hand.press("slash", "c", "o", "l")
        assert [run.name for run in hand.app.page._shown] == ["collapse"]
        await hand.press("escape")
        assert len(hand.app.page._shown) == 5
        assert "2 " in await hand.press("colon", "q", "escape")
        assert hand.app.is_running


async def test_the_palette_goes_to_a_screen_by_name(demo: Path) -> None:
    async with watched(demo, (100, 30)) as hand:
        await hand.pilot.press("ctrl+p")
        for _ in range(300):
            await hand.pilot.pause(0.02)
            if isinstance(hand.app.focused, Input):
                break
        await hand.pilot.press(*"pool")
        for _ in range(300):
            await hand.pilot.pause(0.02)
            if "Go to Pool" in hand.text:
                break
        await hand.pilot.press("down", "enter")
        await hand.settle()
        assert "LEGO  Pool" in hand.text
        assert "solved 0…8 of 8" in hand.text  # laid out for the terminal, not for the dialogue before it


async def test_the_run_screen_scales_smooths_and_leads_to_signals(demo: Path) -> None:
    async with watched(demo, (100, 30)) as hand:
        assert "(log)" in await hand.press("2", "g")
        assert "(log, smoothed)" in await hand.press("x")
        assert "LEGO  Health" in await hand.press("a")


async def test_the_step_screen_hides_flat_groups_and_sorts_the_worst_first(demo: Path) -> None:
    async with watched(demo) as hand:
        await hand.press("colon")
        await hand.type("run reward-hack")
        await hand.press("3")
        page = hand.app.page
        count = len(page._rows)
        await hand.press("z")
        assert len(page._rows) < count
        await hand.press("z", "w")
        means = [row.mean for row in page._rows]
        assert means == sorted(means)


async def test_a_rollout_is_read_by_turn_sibling_view_and_hit(demo: Path) -> None:
    async with watched(demo) as hand:
        await hand.press("2", "colon")
        await hand.type("open s00002.g01.r0")
        assert "▸ turn 1" in hand.text
        first = await hand.press("l", "l")
        assert "turn 2/" in first
        assert "turn 1/" in await hand.press("h")
        assert "s00002.g01.r1" in await hand.press("L")
        assert "s00002.g01.r0" in await hand.press("H")
        assert "(thinking, " in await hand.press("r")
        assert "[tokens]" in await hand.press("t")
        assert "100.0 % of positions have routes" in hand.text
        assert "[conversation]" in await hand.press("t")
        assert "the agent's patch" in await hand.press("d")
        assert "integrity" in await hand.press("i")
        await hand.press("escape", "slash")
        await hand.type("FINAL_OUTPUT")
        assert "FINAL_OUTPUT" in hand.text
        await hand.press("n", "N")
        assert "FINAL_OUTPUT" in hand.text


async def test_turns_are_gone_through_where_the_whole_rollout_is_in_sight(demo: Path) -> None:
    async with watched(demo, (140, 200)) as hand:
        await hand.press("2", "colon")
        assert "turn 0/" in await hand.type("open s00002.g01.r0")
        for turn in (1, 2, 3):
            assert f"turn {turn}/" in await hand.press("l")
        assert "turn 2/" in await hand.press("h")


async def test_a_group_shows_its_siblings_and_its_neighbours(demo: Path) -> None:
    async with watched(demo) as hand:
        assert "g00 of step" in await hand.press("2", "3", "enter")
        assert "g01 of step" in await hand.press("right_square_bracket")
        assert "g00 of step" in await hand.press("left_square_bracket")
        assert "[diff]" in await hand.press("d")


async def test_a_finding_leads_to_its_metric_and_can_be_acknowledged(demo: Path) -> None:
    async with watched(demo, (120, 40)) as hand:
        await hand.press("5")
        rows = [row[2] for row in hand.app.page._rows]
        first = next(n for n, what in enumerate(rows) if isinstance(what, Finding))
        await hand.press(*["j"] * (first - hand.app.page.query_one(Lines).cursor))
        assert "(acknowledged)" in await hand.press("a")
        assert "(acknowledged)" not in await hand.press("a")
        await hand.press("enter")
        assert hand.app.state.metric == "k3"
        assert "LEGO  Run" in hand.text
        for key, said in (("b", "lego check"), ("v", "lego validate"), ("e", "lego report")):
            await hand.press("5")
            assert said in await hand.press(key)


async def test_enter_on_a_cause_leads_to_where_it_shows_at_the_step_it_began(demo: Path) -> None:
    async with watched(demo, (120, 40)) as hand:
        await hand.press("5")
        text = await hand.press("enter")
        assert "LEGO  Trajectory ▸ misaligned-routes ▸ step 6" in text
        assert "[tokens]" in text
        assert "replayed experts that are the trainer's own 8." in text
        assert "LEGO  Health" in await hand.press("escape", "escape")


async def test_failures_and_tasks_open_their_rollouts(demo: Path) -> None:
    async with watched(demo, (120, 40)) as hand:
        await hand.press("colon")
        await hand.type("run environment")
        await hand.press("6")
        assert "no space left on device" in hand.text
        assert "LEGO  Trajectory" in await hand.press("enter")
        assert "LEGO  Sandboxes" in await hand.press("escape")
        assert "LEGO  Group" in await hand.press("7", "enter")


async def test_runs_are_marked_pinned_and_compared(demo: Path) -> None:
    async with watched(demo, (120, 40)) as hand:
        assert "mark two or more" in await hand.press("c")
        assert "▸misaligned-routes" in await hand.press("space")
        await hand.press("j", "space")
        text = await hand.press("c")
        assert "LEGO  Compare" in text
        assert "run.seed" in text or "recipe" in await hand.press("end")
        assert "★" in await hand.press("escape", "end", "p")


async def test_stop_asks_for_the_name_and_leaves_a_request(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.append_step(step(1))
        name, root = writer.layout.root.name, writer.layout.root
        async with watched(root, (120, 30), allow_control=True) as hand:
            await hand.press("ctrl+s")
            assert "nothing was asked" in await hand.type("wrong")
            assert requests(root) == ()
            await hand.press("ctrl+s")
            assert "was asked to stop" in await hand.type(name)
            (request,) = requests(root)
            assert (request.asked, request.via) == (Asked.STOP, "tui")


async def test_without_allow_control_nothing_can_be_stopped(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.append_step(step(1))
        async with watched(writer.layout.root, (120, 30)) as hand:
            assert "read-only" in await hand.press("ctrl+s")
            assert "RO" in hand.text
        assert requests(writer.layout.root) == ()


async def test_q_leaves(demo: Path) -> None:
    async with watched(demo) as hand:
        await hand.pilot.press("q")
        await hand.pilot.pause()
        assert not hand.app.is_running
