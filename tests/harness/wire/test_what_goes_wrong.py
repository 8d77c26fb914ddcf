"""What goes wrong on the wire, as real harnesses meet it: errors, broken streams, parts that are kept."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.recordings import Chat, Claude, Codex, Outcome, Tape, failure, sse

CLAUDE = {"x_claude_code_session_id": "main"}
OPENCODE = {"x_session_id": "main"}
SUMMARY = "add() in calc.py subtracts; test_calc.py fails; the operator must be fixed."


def causes(shown: dict[str, Any]) -> list[str]:
    """How each branch begins."""
    return [branch["cause"] for branch in shown["branches"]]


def forks(shown: dict[str, Any]) -> list[tuple[int, int, str]]:
    return [(fork["turn"], fork["message"], fork["cause"]) for fork in shown["forks"]]


# --- failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("harness", [Chat, Claude, Codex])
async def test_errors_and_the_same_request_again_leave_one_conversation(
    outcome_of: Outcome, harness: type[Chat]
) -> None:
    tape = Tape()
    main = harness(tape)
    main.tool_turn()
    for status in (429, 529, 500, 408):
        main.post(failure(status))
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (shown["turns"], causes(shown), shown["errors"]) == (2, ["start"], [])


async def test_a_stream_that_broke_off_is_answered_with_the_same_reply(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn()
    main.post(main.broken(main.message("Let me", "rm")))
    main.post(failure(503))
    title = Chat(tape, system="You write titles.")
    title.tools = []
    title.turn("Repair of add")
    main.post(main.broken(main.message("Let me see", "rm")))
    main.turn("Let me look.", "cat calc.py")
    main.results("ok")
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (shown["turns"], causes(shown), shown["errors"]) == (4, ["start", "side_call"], [])


async def test_a_stream_that_broke_off_may_be_asked_for_again_whole(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    main.tool_turn()
    main.post(main.broken(main.message("I will")))
    tape.lines[-1]["body"] |= {"stream": True, "max_tokens": 32_000}
    main.turn("I will look.", "cat calc.py")
    main.results("ok")
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (shown["turns"], causes(shown), shown["errors"]) == (3, ["start"], [])


async def test_a_stream_that_broke_off_may_be_asked_for_again_with_other_marks(outcome_of: Outcome) -> None:
    """A hash of each request, a cache mark that moves: what says nothing makes no other question."""
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    main.tool_turn()
    main.post(main.broken(main.message("I will")))
    block = {"type": "text", "text": "x-anthropic-billing-header: cc_version=1; cch=5f3a;"}
    main.system = [block, *main.system]
    main.messages[-1]["content"][0]["cache_control"] = {"type": "ephemeral"}
    main.turn("I will look.", "cat calc.py")
    main.results("ok")
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (shown["turns"], causes(shown), shown["errors"]) == (3, ["start"], [])


async def test_a_phantom_call_in_the_history_is_a_fork(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn()
    phantom = main.message("", "rm")
    main.post(main.broken(phantom))
    whole = main.message(None, "cat calc.py")
    main.post(main.reply(whole))
    phantom["tool_calls"][0]["function"]["arguments"] = "{}"
    for message, output in ((phantom, "Tool execution aborted"), (whole, "ok")):
        main.messages.append(message)
        main.results(output)
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (shown["turns"], forks(shown)) == (3, [(2, 4, "reply_aborted")])


async def test_the_part_of_a_reply_that_a_harness_kept_is_a_fork(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    main.tool_turn()
    part = main.message("I will fix the")
    main.post(main.broken(part))
    main.messages.append(part)
    main.say("Your response above was cut off. Go on.")
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(2, 4, "reply_aborted")]


async def test_a_reply_that_arrived_in_the_end_and_is_gone_was_dropped(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn()
    main.post(main.broken(main.message("I am")))
    main.post(main.reply(main.message("I am done.")))
    main.say("Every reply needs a call.")
    main.tool_turn()
    assert forks(await outcome_of(tape)) == [(2, 4, "reply_dropped")]


async def test_items_that_had_arrived_are_kept_and_the_rest_is_lost(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Codex(tape)
    main.tool_turn()
    items = main.message("Let me look.", "cat calc.py")
    main.post(main.broken(items))
    main.messages += items
    main.results("ok")
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(2, 4, "reply_aborted")]


@pytest.mark.parametrize(
    ("harness", "stream"),
    [
        (Claude, sse([{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}])),
        (Chat, 'data: {"error": {"message": "boom"}}\n\n'),
        (Codex, sse([{"type": "response.failed", "response": {"error": {"message": "boom"}}}])),
    ],
)
async def test_an_error_inside_a_stream_samples_nothing(
    outcome_of: Outcome, harness: type[Chat], stream: str
) -> None:
    tape = Tape()
    main = harness(tape)
    main.tool_turn()
    main.post({"status": 200, "sse": stream})
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (shown["turns"], causes(shown)) == (2, ["start"])


@pytest.mark.parametrize("harness", [Chat, Codex])
async def test_a_reply_that_becomes_an_error_on_its_way_is_asked_for_again(
    outcome_of: Outcome, harness: type[Chat]
) -> None:
    tape = Tape()
    main = harness(tape)
    main.tool_turn()
    broken = main.broken(main.message("I will", "rm"))
    broken["sse"] += {
        Chat: 'data: {"error": {"message": "boom"}}\n\ndata: [DONE]\n\n',
        Codex: sse([{"type": "response.failed", "response": {"error": {"message": "boom"}}}]),
    }[harness]
    main.post(broken)
    main.turn("I will look.", "cat calc.py")
    main.results("ok")
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (shown["turns"], causes(shown), shown["errors"]) == (3, ["start"], [])


async def test_a_harness_that_was_gone_before_the_reply(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn()
    main.post(None)
    shown = await outcome_of(tape)
    assert (shown["turns"], causes(shown)) == (2, ["start"])
