"""What a reader of each recording would expect the proxy to make of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lego_harness.wire.outcome import is_conserved, outcome
from lego_harness.wire.recording import read_recording
from lego_harness.wire.replay import replay
from tests.support.families import load_families
from tests.support.recordings import Outcome

FOLDER = Path(__file__).parents[2] / "data" / "wire"
TITLE = {"title": 1}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A reader's account of a recording."""

    turns: int
    forks: Sequence[tuple[int, int, str]] = ()
    """Turn, message, cause."""
    sub_agents: int = 0
    side_calls: dict[str, int] = field(default_factory=dict)
    extra: Sequence[str] = ()
    """Causes of branches beside the start, the forks and the sub-agents."""


READINGS = {
    "server/claude-code.plain-recipe": Reading(turns=4),
    "server/claude-code.parallel": Reading(turns=4),
    "server/claude-code.subagent-foreground": Reading(turns=10, sub_agents=2),
    # The question for the summary stands where the last reply stood, and the summary begins a new history.
    "server/claude-code.compaction": Reading(
        turns=17, forks=[(15, 31, "reply_dropped"), (16, 1, "compaction")], side_calls={"compaction": 1}
    ),
    "server/claude-code.errors-context-length": Reading(
        turns=5, forks=[(2, 5, "reply_dropped"), (3, 1, "compaction")], side_calls={"compaction": 1}
    ),
    "server/claude-code.errors-max-tokens": Reading(turns=4),
    "server/opencode.plain": Reading(turns=5, side_calls=TITLE, extra=["side_call"]),
    "server/opencode.parallel": Reading(turns=5, side_calls=TITLE, extra=["side_call"]),
    "server/opencode.subagent": Reading(turns=11, sub_agents=2, side_calls=TITLE, extra=["side_call"]),
    "server/opencode.rewrites": Reading(turns=11, side_calls=TITLE, extra=["side_call"]),
    # One reply for both requests; the phantom call of its first delivery stays in the history.
    "server/opencode.errors-aborted-stream": Reading(
        turns=5, forks=[(3, 4, "reply_aborted")], side_calls=TITLE, extra=["side_call"]
    ),
    "server/openhands.plain": Reading(turns=4),
    "server/openhands.plain-responses": Reading(turns=4),
    "server/openhands.subagent": Reading(turns=10, sub_agents=2),
    "server/openhands.compaction": Reading(
        turns=19,
        forks=[(8, 1, "compaction"), (13, 2, "compaction"), (18, 2, "compaction")],
        side_calls={"compaction": 3},
        extra=["side_call"] * 3,
    ),
    "server/openhands.errors-malformed": Reading(turns=5, forks=[(2, 4, "reply_edited")]),
    "lego/mini-swe-agent.plain": Reading(turns=4),
    "lego/mini-swe-agent.parallel": Reading(turns=4),
    # A reply without a call is answered with a complaint and dropped.
    "lego/mini-swe-agent.cut": Reading(turns=5, forks=[(2, 4, "reply_dropped")]),
    "lego/claude-code.plain": Reading(turns=4),
    "lego/claude-code.parallel": Reading(turns=4),
    "lego/claude-code.subagent": Reading(turns=9, sub_agents=2),
    # Three times, each time summed up in the same words.
    "lego/claude-code.compaction": Reading(
        turns=20,
        forks=[
            (6, 12, "reply_dropped"),
            (7, 1, "compaction"),
            (11, 10, "reply_dropped"),
            (12, 2, "compaction"),
            (16, 10, "reply_dropped"),
            (17, 2, "compaction"),
        ],
        side_calls={"compaction": 3},
    ),
    "lego/claude-code.cut": Reading(turns=5),
    "lego/opencode.plain": Reading(turns=4),
    "lego/opencode.parallel": Reading(turns=4),
    "lego/opencode.subagent": Reading(turns=9, sub_agents=2),
    "lego/opencode.compaction": Reading(
        turns=18, forks=[(9, 1, "compaction")], side_calls={"compaction": 1}, extra=["side_call"]
    ),
    "lego/opencode.cut": Reading(turns=2),
    "lego/openhands.plain": Reading(turns=4),
    "lego/openhands.parallel": Reading(turns=4),
    "lego/openhands.subagent": Reading(turns=9, sub_agents=2),
    "lego/openhands.compaction": Reading(
        turns=19,
        forks=[(8, 4, "compaction"), (15, 5, "compaction")],
        side_calls={"compaction": 2},
        extra=["side_call"] * 2,
    ),
    "lego/openhands.cut": Reading(turns=2),
    "lego/codex.plain": Reading(turns=4),
    "lego/codex.parallel": Reading(turns=4),
    "lego/codex.subagent": Reading(turns=10, sub_agents=2),
    "lego/codex.compaction": Reading(
        turns=19,
        forks=[(7, 3, "compaction"), (14, 4, "compaction")],
        side_calls={"compaction": 2},
        extra=["side_call"] * 2,
    ),
    "lego/codex.cut": Reading(turns=2),
}


def test_every_recording_has_a_reading() -> None:
    found = {str(path.relative_to(FOLDER)).removesuffix(".jsonl.gz") for path in FOLDER.rglob("*.gz")}
    assert found == set(READINGS)


@pytest.mark.parametrize("name", READINGS)
async def test_a_recording_shows_what_a_reader_expects(outcome_of: Outcome, name: str) -> None:
    reading = READINGS[name]
    shown = await outcome_of(FOLDER / f"{name}.jsonl.gz")
    assert shown["turns"] == reading.turns
    assert [(f["turn"], f["message"], f["cause"]) for f in shown["forks"]] == list(reading.forks)
    assert shown["sub_agents"] == reading.sub_agents
    assert shown["side_calls"] == reading.side_calls
    causes = ["start", *(cause for _, _, cause in reading.forks), *["sub_agent"] * reading.sub_agents]
    assert sorted(b["cause"] for b in shown["branches"]) == sorted([*causes, *reading.extra])
    assert shown["errors"] == []


@pytest.mark.parametrize("name", READINGS)
async def test_only_titles_are_masked(outcome_of: Outcome, name: str) -> None:
    shown = await outcome_of(FOLDER / f"{name}.jsonl.gz")
    assert set(shown["masked"]) == ({"side_call:title"} if "title" in shown["side_calls"] else set())
    assert shown["sampled"] == shown["trained"] + sum(shown["masked"].values())
    assert shown["trained"] == sum(branch["tokens_trained"] for branch in shown["branches"])


@pytest.mark.parametrize("family", ["qwen3-thinking", "qwen3-coder", "qwen3.5", "qwen3.6-preserved"])
async def test_a_recording_shows_the_same_whichever_template_the_policy_has(
    outcome_of: Outcome, tmp_path: Path, family: str
) -> None:
    renderer = load_families(tmp_path)[family]
    renderer.max_model_len = 2**30
    for name in (
        "server/claude-code.errors-context-length",
        "server/openhands.subagent",
        "lego/codex.compaction",
    ):
        path = FOLDER / f"{name}.jsonl.gz"
        (replayed,) = await replay(read_recording(path), renderer)
        one, other = outcome(replayed), await outcome_of(path)
        assert is_conserved(replayed)
        for key in ("turns", "forks", "side_calls", "sub_agents", "errors"):
            assert one[key] == other[key], (name, key)
