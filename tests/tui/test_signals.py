"""From `lego watch` alone a newcomer sees why a planted run went bad, and that a healthy one did not."""

from __future__ import annotations

from pathlib import Path

import pytest

from lego_tui.feed.run import RunFeed
from lego_tui.signals import signals, verdict
from tests.support.watching import watched

PLANTED = {
    "environment-failure": ("fail outside the policy", "no space left on device", "6"),
    "collapse": ("reward fell from", "policy entropy rose", "5"),
    "reward-hack": ("training reward rose by", "held-out fell", "5"),
    "misaligned-routes": (
        "replayed experts agree with the router's own on",
        "just before: engine_restarted",
        "5",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
async def test_a_planted_run_says_what_is_wrong_at_first_sight_and_why_one_key_later(
    demo: Path, name: str
) -> None:
    first, why, key = PLANTED[name]
    async with watched(demo, (140, 45)) as hand:
        await hand.press("colon")
        assert first in await hand.type(f"run {name}")
        assert why in await hand.press(key)


async def test_the_hack_is_named_in_the_rollouts_of_its_groups(demo: Path) -> None:
    async with watched(demo, (140, 45)) as hand:
        await hand.press("colon")
        await hand.type("run reward-hack")
        text = await hand.press("3", "enter")
        assert "the patch hooks into the test runner" in text
        assert "pytest_runtest_makereport" in await hand.press("enter")


def test_nothing_stands_out_in_the_healthy_run(demo: Path) -> None:
    run = RunFeed(demo / "healthy")
    while run.poll():
        pass
    assert signals(run) == []
    assert verdict(run) == "ok"
