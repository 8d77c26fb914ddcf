"""What harnesses do that nobody has recorded yet: inserted reminders, cleared results, agents without names."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.recordings import TASK, Chat, Claude, Codex, Outcome, Outcomes, Tape

CLAUDE = {"x_claude_code_session_id": "main"}
OPENCODE = {"x_session_id": "main"}
SUMMARY = "add() in calc.py subtracts; test_calc.py fails; the operator must be fixed."
REMINDER = "<system-reminder>Keep the list of todos up to date.</system-reminder>"


def causes(shown: dict[str, Any]) -> list[str]:
    """How each branch begins."""
    return [branch["cause"] for branch in shown["branches"]]


def forks(shown: dict[str, Any]) -> list[tuple[int, int, str]]:
    return [(fork["turn"], fork["message"], fork["cause"]) for fork in shown["forks"]]


# --- what nobody sampled is edited -----------------------------------------------------------------


def _grows(messages: list[dict[str, Any]], at: int) -> None:
    messages[at]["content"] += f"\n{REMINDER}"


def _is_inserted(messages: list[dict[str, Any]], at: int) -> None:
    messages.insert(at, {"role": "system", "content": REMINDER})


@pytest.mark.parametrize(("edit", "at"), [(_grows, 1), (_grows, 3), (_is_inserted, 2), (_is_inserted, 4)])
async def test_a_reminder_before_a_reply_that_stays_is_an_edit_and_drops_nothing(
    outcome_of: Outcome, edit: Callable[[list[dict[str, Any]], int], None], at: int
) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn("a")
    main.tool_turn("b")
    edit(main.messages, at)
    main.tool_turn("c")
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(2, at, "history_edited")]


async def test_old_results_that_are_cleared_fork_where_the_first_of_them_stood(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    for command in "abcd":
        main.tool_turn(command)
    for at in (2, 4):
        main.messages[at]["content"][0]["content"] = "[Old tool result content cleared]"
    main.tool_turn("e")
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(4, 3, "history_edited")]


@pytest.mark.parametrize("first", [None, {"role": "system", "content": "You are another agent."}])
async def test_a_system_prompt_that_goes_or_comes_leaves_the_same_conversation(
    outcome_of: Outcome, first: dict[str, Any] | None
) -> None:
    tape = Tape()
    main = Chat(tape)
    if first:
        del main.messages[0]
    main.tool_turn("a")
    main.messages[: not first] = [first] if first else []
    main.tool_turn("b")
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(1, 0, "history_edited")]


async def test_a_clock_in_the_system_prompt_is_compared_with_its_own_conversation(
    outcome_of: Outcome,
) -> None:
    tape = Tape()
    main = Chat(tape, system="It is 10:00.", **OPENCODE)
    main.tool_turn("a")
    title = Chat(tape, system="You write titles.", task="A title for this:", **OPENCODE)
    title.tools = []
    title.say(TASK)
    title.turn("Repair of add")
    main.messages[0] = {"role": "system", "content": "It is 10:01."}
    main.turn("Done.")
    (fork,) = (await outcome_of(tape))["forks"]
    assert (fork["cause"], fork["detail"]) == (
        "history_edited",
        "its content was '0.' and is '1.' from character 10 on",
    )


async def test_thoughts_of_turns_from_before_a_fork_may_be_dropped_behind_it(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    for index in range(4):
        if index == 2:
            main.system = [{"type": "text", "text": "You are another agent."}]
        turn = main.message("Look. ", "ls")
        thought = {"type": "thinking", "thinking": f"Hm {index}.", "signature": tape.new_id("signature")}
        turn["content"].insert(0, thought)
        main.post(main.reply(turn))
        main.messages.append(copy.deepcopy(turn))
        main.results("ok")
    for message in main.messages[1::2]:
        del message["content"][0]
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(2, 0, "history_edited")]


# --- the policy's own turns ------------------------------------------------------------------------


async def test_calls_that_go_under_ids_of_the_harness_are_the_same_calls(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.turn("Both.", "a", "b")
    main.results("1", "2")
    for index, call in enumerate(main.messages[2]["tool_calls"]):
        call["id"] = main.messages[3 + index]["tool_call_id"] = f"tool-{index}"
    main.tool_turn("c")
    main.messages[0] = {"role": "system", "content": "You are another agent."}
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(2, 0, "history_edited")]


async def test_whoever_asks_for_calls_in_tags_gets_them_as_text(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape, system="Call tools as <tool_call>{...}</tool_call>.")
    main.tools = []
    for command in "ab":
        call = json.dumps({"name": "bash", "arguments": {"command": command}})
        main.turn(f"Look.\n<tool_call>\n{call}\n</tool_call>")
        main.say("<tool_response>ok</tool_response>")
    main.turn("Done.")
    assert causes(await outcome_of(tape)) == ["start"]


async def test_tools_that_a_search_found_are_named(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    main.turn(None, "search")
    main.results("")
    found = {"type": "tool_reference", "tool_name": "WebFetch"}
    main.messages[-1]["content"][0]["content"] = [found]
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (causes(shown), shown["errors"]) == (["start"], [])


def _in_pieces(messages: list[dict[str, Any]], num: int, *, is_paired: bool) -> None:
    """Put a message per text and per call in place of the last turn with its results, `num` of each."""
    turn, *results = messages[-num - 1 :]
    calls = [{"role": "assistant", "content": None, "tool_calls": [call]} for call in turn["tool_calls"]]
    pairs = [message for pair in zip(calls, results, strict=True) for message in pair]
    said = {"role": "assistant", "content": turn["content"]}
    messages[-num - 1 :] = [said, *(pairs if is_paired else [*calls, *reversed(results)])]


@pytest.mark.parametrize("is_paired", [True, False])
async def test_a_turn_that_comes_back_in_pieces_is_one_turn(outcome_of: Outcome, is_paired: bool) -> None:
    tape = Tape()
    main = Chat(tape)
    main.turn("All three.", "a", "b", "c")
    main.results("1", "2", "3")
    _in_pieces(main.messages, 3, is_paired=is_paired)
    main.tool_turn("d")
    main.messages[0] = {"role": "system", "content": "You are another agent."}
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(2, 0, "history_edited")]


async def test_a_turn_of_which_a_piece_is_missing_is_another_turn(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.turn("All three.", "a", "b", "c")
    main.results("1", "2", "3")
    _in_pieces(main.messages, 3, is_paired=True)
    del main.messages[-2:]
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(1, 2, "reply_edited")]


async def test_blocks_that_come_back_in_messages_of_their_own_are_one_turn(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    turn = main.message("Both.", "a", "b")
    thought = {"type": "thinking", "thinking": "Hm.", "signature": tape.new_id("signature")}
    turn["content"].insert(0, thought)
    main.post(main.reply(turn))
    main.messages.append(copy.deepcopy(turn))
    main.results("1", "2")
    pieces = [{"role": "assistant", "content": [block]} for block in turn["content"]]
    main.messages[1:2] = pieces
    main.tool_turn("c")
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == []


async def test_calls_each_followed_by_its_output_are_one_turn(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Codex(tape)
    main.turn("Both.", "a", "b")
    main.results("1", "2")
    main.messages[-3:-1] = reversed(main.messages[-3:-1])
    main.tool_turn("c")
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == []


async def test_ids_that_are_made_anew_for_each_request_mean_nothing(outcome_of: Outcome) -> None:
    """As a bridge from an API without ids makes them."""
    tape = Tape()
    main = Chat(tape)
    main.turn("Both.", "a", "b")
    main.results("1", "2")
    for command in "cde":
        main.messages = copy.deepcopy(main.messages)
        ids: dict[str, str] = {}
        for message in main.messages:
            for call in message.get("tool_calls", []):
                call["id"] = ids.setdefault(call["id"], tape.new_id("anew"))
            if message["role"] == "tool":
                message["tool_call_id"] = ids[message["tool_call_id"]]
        main.tool_turn(command)
    assert forks(await outcome_of(tape)) == []


@pytest.mark.parametrize("harness", [Chat, Claude, Codex])
async def test_a_broken_call_that_comes_back_with_its_text_is_the_same_call(
    outcome_of: Outcome, harness: type[Chat]
) -> None:
    tape = Tape()
    main = harness(tape)
    turn: Any = main.message("Look.", "ls")
    called = {
        Chat: lambda: turn["tool_calls"][0]["function"],
        Claude: lambda: turn["content"][-1],
        Codex: lambda: turn[-1],
    }[harness]()
    key = "input" if harness is Claude else "arguments"
    called[key] = '{"command": "ls'
    main.post(copy.deepcopy(main.reply(turn)))
    if harness is Claude:
        called[key] = {"__unparsedToolInput": {"raw": called[key]}}
    main.messages += turn if harness is Codex else [turn]
    main.results("That was no JSON.")
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == []


# --- agents and calls beside the conversation ------------------------------------------------------


@pytest.mark.parametrize("before", ["", f"{REMINDER}\n"])
async def test_sub_agents_without_names_are_known_by_the_task_that_a_call_gives(
    outcome_of: Outcome, before: str
) -> None:
    tape = Tape()
    main = Chat(tape)
    tasks = [f"List the files of part {index}." for index in range(2)]
    calls = main.message(None, *tasks)
    for call, task in zip(calls["tool_calls"], tasks, strict=True):
        call["function"] = {"name": "task", "arguments": json.dumps({"prompt": task})}
    main.post(main.reply(calls))
    main.messages.append(calls)
    agents = [Chat(tape, system="You are a sub-agent.", task=before + task) for task in tasks]
    for agent in (*agents, *reversed(agents)):
        agent.tool_turn()
    for agent in agents:
        agent.turn("Only calc.py is there.")
    main.results(*["Only calc.py is there."] * 2)
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (shown["sub_agents"], shown["forks"]) == (2, [])
    assert causes(shown) == ["start", "sub_agent", "sub_agent"]


async def test_the_same_task_given_twice_is_two_sub_agents_and_asked_a_third_time_one_of_them_again(
    outcome_of: Outcome,
) -> None:
    tape = Tape()
    main = Chat(tape)
    calls = main.message(None, "a", "b")
    for call in calls["tool_calls"]:
        call["function"] = {"name": "task", "arguments": json.dumps({"prompt": TASK})}
    main.post(main.reply(calls))
    for number in range(3):
        Chat(tape, system="You are a sub-agent.").turn(f"Seen by number {number}.")
    shown = await outcome_of(tape)
    assert causes(shown) == ["start", "sub_agent", "sub_agent", "resampled"]
    assert shown["sub_agents"] == 2


async def test_where_the_recording_begins_does_not_make_a_sub_agent_the_first_conversation(
    outcome_of: Outcome,
) -> None:
    tape = Tape()
    agent = Claude(tape, task="Look around.", **CLAUDE, x_claude_code_agent_id="one")
    main = Claude(tape, **CLAUDE)
    for talk in (agent, main, agent, main):
        talk.tool_turn()
    assert causes(await outcome_of(tape)) == ["sub_agent", "start"]


async def test_a_summary_of_the_conversation_itself_comes_back_as_a_turn(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn("a")
    main.say("Sum up.")
    main.turn(SUMMARY)
    main.messages[1:] = [{"role": "user", "content": "What did we do?"}, main.messages[-1]]
    main.say("Go on.")
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(2, 1, "compaction")]


async def test_a_window_of_turns_without_calls_is_no_summary(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tools = []
    for command in "abc":
        main.turn(f"I run {command} and look.\n```bash\n{command}\n```")
        main.say(f"output of {command}")
    del main.messages[2:6]
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (forks(shown), shown["side_calls"]) == ([(3, 2, "reply_dropped")], {})


async def test_a_summary_asked_for_under_another_name_is_a_compaction(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape, x_litellm_session_id="main")
    main.tool_turn("a")
    aside = Chat(tape, system="Condense.", task="<EVENT>hello</EVENT>", x_litellm_session_id="condenser")
    aside.tools = []
    aside.turn(f"<summary>{SUMMARY}</summary>")
    main.messages[1] = {"role": "user", "content": f"{TASK}\n{SUMMARY}"}
    main.turn("Done.")
    for line in tape.lines:
        line["body"]["prompt_cache_key"] = "root"
    shown = await outcome_of(tape)
    assert forks(shown) == [(2, 1, "compaction")]
    assert (shown["side_calls"], shown["masked"]) == ({"compaction": 1}, {})


async def test_a_summary_may_be_wrapped_anew(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn("a")
    main.say("Sum up.")
    main.turn(SUMMARY)
    main.messages[1:] = [{"role": "user", "content": SUMMARY.replace(" must", "\n  must")}]
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(2, 1, "compaction")]


async def test_a_question_that_quotes_a_reply_is_no_compaction_where_nobody_uses_tools(
    outcome_of: Outcome,
) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tools = []
    for name in "ab":
        main.turn(f"I changed file {name}.py and ran it.")
        main.say("Go on.")
    aside = Chat(tape, system="Sum up.", task="user: Hi.\nassistant: I changed file a.py and ran it.")
    aside.tools = []
    aside.turn(SUMMARY)
    main.messages[1:3] = [{"role": "user", "content": f"You said: {SUMMARY}"}]
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert forks(shown) == [(3, 1, "compaction")]
    assert (causes(shown), shown["side_calls"]) == (["start", "side_call", "compaction"], {"compaction": 1})


async def test_a_title_may_be_begun_by_the_harness(outcome_of: Outcome) -> None:
    tape = Tape()
    title = Claude(tape, system="Is it a new topic?", **CLAUDE)
    title.tools = []
    title.messages.append({"role": "assistant", "content": "{"})
    title.turn('\n  "isNewTopic": true,\n  "title": "Repair of add"\n}')
    Claude(tape, **CLAUDE).tool_turn()
    shown = await outcome_of(tape)
    assert (shown["side_calls"], list(shown["masked"])) == ({"title": 1}, ["side_call:title"])


async def test_a_question_asked_for_one_token_to_keep_a_cache_warm_is_a_probe(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    main.post(main.reply(main.message("I"), finish="max_tokens"))
    tape.lines[-1]["body"]["max_tokens"] = 1
    main.tool_turn()
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (causes(shown), shown["forks"]) == (["side_call", "start"], [])
    assert list(shown["masked"]) == ["side_call:probe"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (TASK, '{\n  "isNewTopic": true,\n  "title": "Repair of add"\n}'),
        (f"Title this:\n<session>\n{TASK}\n</session>", "Repair of add"),
        (f"Title this: {TASK} It has more lines th...", "Repair of add"),
    ],
)
async def test_a_title_may_be_json_and_the_task_wrapped_or_cut(
    outcome_of: Outcome, asked: str, said: str
) -> None:
    tape = Tape()
    title = Claude(tape, task=asked, **CLAUDE)
    title.tools = []
    title.turn(said)
    main = Claude(tape, task=f"{REMINDER}\n{TASK}\nIt has more lines than a title needs.", **CLAUDE)
    main.tool_turn()
    shown = await outcome_of(tape)
    assert (shown["side_calls"], list(shown["masked"])) == ({"title": 1}, ["side_call:title"])


@pytest.mark.parametrize("user", ["user_5f_account__session_{}", '{{"device_id": "5f", "session_id": "{}"}}'])
async def test_sessions_that_only_the_metadata_name_are_told_apart(outcomes: Outcomes, user: str) -> None:
    tape = Tape()
    for name in ("one", "two", "one"):
        Claude(tape, task=f"Task of {name}.").turn("Done.")
        tape.lines[-1]["body"]["metadata"] = {"user_id": user.format(name)}
    assert [one["turns"] for one in await outcomes(tape)] == [2, 1]
