"""From `lego watch` alone a newcomer sees why a planted run went bad, and that a healthy one did not; and it says
what `lego diagnose` says."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lego_core.config import WatchdogPolicy
from lego_core.health.of_run import diagnose_run
from lego_core.health.policy import set_policy
from lego_core.store import RunReader, RunWriter
from lego_tui.feed.run import RunFeed
from lego_tui.fleet_table import facts
from tests.support.runs import heldout, recipe, step
from tests.support.watching import watched

PLANTED = {
    "environment-failure": (
        "environment_failure: Sandboxes, engine or grader fail",
        "rollouts leave the batch without a grade",
        "no space left on device",
        "6",
    ),
    "collapse": (
        "form_lost: The policy unlearns the form of tool calls",
        "nearly every tool call is unreadable",
        "many rollouts run into a limit",
        "5",
    ),
    "reward-hack": (
        "reward_hacked: Rewards are earned without doing the task",
        "rewards for no change, or for a patch that cheats",
        "the training reward rose while the held-out solve rate fell",
        "5",
    ),
    "misaligned-routes": (
        "misaligned_routes: Replayed experts belong to other positions or to other weights",
        "just before: engine_restarted",
        "replayed routes are not those of the trainer's router",
        "5",
    ),
}


def followed(run: Path) -> RunFeed:
    feed = RunFeed(run)
    while feed.poll() or feed.is_behind:
        pass
    return feed


@pytest.mark.parametrize("name", PLANTED)
async def test_a_planted_run_says_what_is_wrong_at_first_sight_and_why_one_key_later(
    demo: Path, name: str
) -> None:
    cause, finding, more, key = PLANTED[name]
    async with watched(demo, (140, 45)) as hand:
        assert cause.partition(":")[0] in hand.text
        await hand.press("colon")
        text = re.sub(r" since step \d+:", ":", await hand.type(f"run {name}"))
        assert cause in text
        assert finding in text
        assert more in await hand.press(key)


async def test_the_hack_is_named_in_the_rollouts_of_its_groups(demo: Path) -> None:
    async with watched(demo, (140, 45)) as hand:
        await hand.press("colon")
        await hand.type("run reward-hack")
        text = await hand.press("3", "enter")
        assert "the patch hooks into the test runner" in text
        assert "pytest_runtest_makereport" in await hand.press("enter")


@pytest.mark.parametrize("name", ["healthy", *PLANTED])
def test_the_display_and_lego_diagnose_are_of_one_opinion(demo: Path, name: str) -> None:
    assert followed(demo / name).diagnosis == diagnose_run(RunReader(demo / name))


def test_nothing_stands_out_in_the_healthy_run(demo: Path) -> None:
    told = facts(followed(demo / "healthy"))
    assert (told["looks"], told["findings"]) == ("healthy", [])


def test_a_resumed_step_a_broken_number_and_a_policy_set_by_a_person_are_judged_alike(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path, recipe()) as writer:
        writer.append_heldout(heldout(0))
        for number in (1, 2, 3, 3, 4, 5, 6):
            writer.append_step(replace(step(number), loss=math.nan if number == 6 else 0.1, kl_loss=None))
        run = writer.layout.root
        limits = [{"metric": "entropy", "min": 0.9}]
        policy = WatchdogPolicy.model_validate({"limits": limits})
        set_policy(run, policy, who="me", via="cli", why="it may not go down")
    said = {finding.key for finding in followed(run).diagnosis.findings}
    assert said == {finding.key for finding in diagnose_run(RunReader(run)).findings}
    assert {"loss/non_finite", "entropy/limit_below"} <= said


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["step", "reward_mean", "entropy", "loss", "rollouts", "groups", "sampled", "acted", "dropped"]),
            st.one_of(
                st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.just("NaN"),
                st.dictionaries(st.sampled_from(["turns", "calls", "ungraded:x", "\x1b"]), st.floats(), max_size=3),
            ),
        ),
        max_size=30,
    )
)  # fmt: skip
def test_no_line_of_a_file_breaks_the_opinion(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, object]]
) -> None:
    run = tmp_path_factory.mktemp("run")
    (run / "run.json").write_text("{}")
    numbered = [{"step": n, **line} for n, line in enumerate(lines, 1)]
    (run / "steps.jsonl").write_text("".join(json.dumps(line) + "\n" for line in numbered))
    assert json.dumps(facts(followed(run)), allow_nan=False)
