"""What harnesses do to a conversation, one habit at a time: how the proxy takes it, told by a replay."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.support.recordings import TASK, Chat, Claude, Codex, Outcome, Outcomes, Tape, tool

CLAUDE = {"x_claude_code_session_id": "main"}
OPENCODE = {"x_session_id": "main"}
SUMMARY = "add() in calc.py subtracts; test_calc.py fails; the operator must be fixed."


def causes(shown: dict[str, Any]) -> list[str]:
    """How each branch begins."""
    return [branch["cause"] for branch in shown["branches"]]


def forks(shown: dict[str, Any]) -> list[tuple[int, int, str]]:
    return [(fork["turn"], fork["message"], fork["cause"]) for fork in shown["forks"]]


# --- sub-agents ------------------------------------------------------------------------------------


async def test_nested_sub_agents_are_conversations_of_their_own(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    main.tool_turn("start an agent")
    outer = Claude(tape, task="Look around.", **CLAUDE, x_claude_code_agent_id="outer")
    outer.tool_turn("start another")
    names = {"x_claude_code_agent_id": "inner", "x_claude_code_parent_agent_id": "outer"}
    inner = Claude(tape, task="Look deeper.", **CLAUDE, **names)
    inner.tool_turn()
    for agent in (inner, outer, main):
        agent.turn("Seen.")
    shown = await outcome_of(tape)
    assert (shown["sub_agents"], shown["turns"], shown["forks"]) == (2, 6, [])
    assert causes(shown) == ["start", "sub_agent", "sub_agent"]


async def test_a_sub_agent_in_the_background_wakes_its_parent_without_a_fork(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    main.tool_turn("start an agent")
    agent = Claude(tape, task="Look around.", **CLAUDE, x_claude_code_agent_id="one")
    agent.tool_turn()
    main.turn("I go on meanwhile.")
    agent.turn(SUMMARY)
    main.say(f"<task-notification>{SUMMARY}</task-notification>")
    main.turn("All done.")
    shown = await outcome_of(tape)
    assert causes(shown) == ["start", "sub_agent"]
    assert (shown["forks"], shown["side_calls"]) == ([], {})


async def test_sub_agents_whose_calls_interleave_go_on_where_each_was(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape, **OPENCODE)
    main.turn(None, "one", "two")
    agents = [
        Chat(tape, task=f"Part {i} of it.", x_session_id=f"sub{i}", x_parent_session_id="main")
        for i in range(3)
    ]
    for round_of in range(3):
        for agent in agents[round_of:] + agents[:round_of]:
            agent.tool_turn(f"step {round_of}")
    main.results("1", "2")
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (shown["sub_agents"], shown["forks"], len(shown["branches"])) == (3, [], 4)


# --- compaction ------------------------------------------------------------------------------------


async def test_a_summary_asked_for_in_place_of_the_last_reply(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    main.tool_turn("a")
    main.tool_turn("b")
    last = main.turn(None, "c")
    main.messages.pop()
    main.messages[-1]["content"].append({"type": "text", "text": "Respond with TEXT ONLY: summarise."})
    main.turn(f"<analysis>seen</analysis>\n<summary>{SUMMARY}</summary>")
    main.messages = [{"role": "user", "content": f"{TASK} So far: {SUMMARY}"}, last]
    main.results("ok")
    main.tool_turn("d")
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert forks(shown) == [(3, 6, "reply_dropped"), (4, 1, "compaction")]
    assert shown["side_calls"] == {"compaction": 1}
    assert shown["masked"] == {}


@pytest.mark.parametrize("second", [SUMMARY, f"{SUMMARY} The first half is done."])
async def test_summaries_one_after_another_in_place_of_the_last_reply(
    outcome_of: Outcome, second: str
) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    for summary in (SUMMARY, second):
        main.tool_turn("a")
        last = main.turn(None, "b")
        main.messages.pop()
        main.messages[-1]["content"].append({"type": "text", "text": "Respond with TEXT ONLY: summarise."})
        main.turn(f"<analysis>seen</analysis>\n<summary>\n{summary}\n</summary>")
        main.messages = [{"role": "user", "content": f"{TASK} So far: {summary}"}, last]
        main.results("ok")
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert [cause for _, _, cause in forks(shown)] == ["reply_dropped", "compaction"] * 2
    assert shown["side_calls"] == {"compaction": 2}


async def test_a_summary_asked_for_behind_the_history(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    main.tool_turn("a")
    main.say("Respond with TEXT ONLY: summarise.")
    main.turn(SUMMARY)
    main.messages = [{"role": "user", "content": f"This session is being continued. {SUMMARY}"}]
    main.tool_turn("d")
    shown = await outcome_of(tape)
    assert forks(shown) == [(2, 1, "compaction")]
    assert shown["side_calls"] == {"compaction": 1}


@pytest.mark.parametrize("second", [SUMMARY, f"{SUMMARY} The first half is done."])
async def test_summaries_that_come_back_as_turns_of_the_assistant(outcome_of: Outcome, second: str) -> None:
    tape = Tape()
    main = Chat(tape, **OPENCODE)
    main.tool_turn("a")
    for summary, shown_before in ((SUMMARY, TASK), (second, SUMMARY)):
        aside = Chat(tape, system="Summarise.", task=f"user: {shown_before}\nassistant: bash", **OPENCODE)
        aside.tools = []
        aside.turn(summary)
        said = {"role": "assistant", "content": summary}
        main.messages = [main.messages[0], {"role": "user", "content": "What did we do so far?"}, said]
        main.say("Continue if you have next steps.")
        main.tool_turn("c")
    shown = await outcome_of(tape)
    assert [cause for _, _, cause in forks(shown)] == ["compaction", "compaction"]
    assert shown["side_calls"] == {"compaction": 2}
    assert shown["masked"] == {}


@pytest.mark.parametrize("second", [SUMMARY, f"{SUMMARY} The first half is done."])
async def test_summaries_of_events_that_show_the_summary_before(outcome_of: Outcome, second: str) -> None:
    tape = Tape()
    main = Chat(tape, x_litellm_session_id="main")
    main.tool_turn("a")
    for summary, events in ((SUMMARY, "user: hello"), (second, f"summary: {SUMMARY}\ntool: ok")):
        aside = Chat(tape, system="Condense.", task=f"<EVENT>{events}</EVENT>", x_litellm_session_id="main")
        aside.tools = []
        aside.turn(f"<summary>{summary}</summary>")
        main.messages = [
            *main.messages[:1],
            {"role": "user", "content": f"{TASK}\n{summary}"},
            *main.messages[-2:],
        ]
        main.tool_turn("c")
    shown = await outcome_of(tape)
    assert [cause for _, _, cause in forks(shown)] == ["compaction", "compaction"]
    assert causes(shown) == ["start", "side_call", "compaction", "side_call", "compaction"]
    assert shown["side_calls"] == {"compaction": 2}


async def test_a_summary_asked_for_without_the_tools(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Codex(tape, session_id="main", thread_id="main")
    main.tool_turn("a")
    main.tool_turn("b")
    tools, main.tools = main.tools, []
    main.say("CONTEXT CHECKPOINT COMPACTION")
    main.turn(SUMMARY)
    main.tools = tools
    main.messages = [*main.messages[:2], {"role": "user", "content": f"Another model began. {SUMMARY}"}]
    main.tool_turn("c")
    shown = await outcome_of(tape)
    assert forks(shown) == [(3, 2, "compaction")]
    assert causes(shown) == ["start", "side_call", "compaction"]


async def test_a_complaint_that_quotes_the_reply_it_dropped_is_no_summary(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn()
    for time in ("first", "second"):
        main.post(main.reply(main.message("I will now look at the operator.")))
        main.say(f'You said "I will now look at the operator." and called no tool, for the {time} time.')
    main.tool_turn()
    shown = await outcome_of(tape)
    assert [cause for _, _, cause in forks(shown)] == ["reply_dropped", "reply_dropped"]
    assert shown["side_calls"] == {}


async def test_a_history_without_its_middle_and_without_a_summary_lacks_a_reply(outcome_of: Outcome) -> None:
    """As where a harness shows the last few turns only: what stands in the reply's place is a later one."""
    tape = Tape()
    main = Chat(tape)
    for command in "abcd":
        main.tool_turn(command)
        del main.messages[2 : max(len(main.messages) - 4, 2)]
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert forks(shown) == [(3, 2, "reply_dropped"), (4, 2, "reply_dropped")]


# --- limits and odd replies ------------------------------------------------------------------------


async def test_a_cut_reply_is_gone_on_with(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    main.tool_turn()
    main.turn("This is cut", finish="max_tokens")
    main.say("Resume directly.")
    main.turn("and done.")
    shown = await outcome_of(tape)
    assert (shown["turns"], causes(shown)) == (3, ["start"])


async def test_calls_of_a_cut_reply_are_run(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    main.turn("Both:", "a", "b", finish="max_tokens")
    main.results("1", "2")
    main.turn("Done.")
    assert causes(await outcome_of(tape)) == ["start"]


async def test_an_empty_reply_that_is_kept_is_no_fork_and_one_that_is_dropped_is(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn()
    main.turn("")
    main.say("You said nothing.")
    main.post(main.reply(main.message("")))
    main.messages[-1]["content"] += " Again."
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert forks(shown) == [(3, 5, "reply_dropped")]


async def test_the_same_request_after_a_reply_was_delivered_is_sampled_anew(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn()
    main.post(main.reply(main.message("First.")))
    main.turn("Second.")
    shown = await outcome_of(tape)
    assert (shown["turns"], forks(shown)) == (3, [(2, 4, "resampled")])


# --- what changes without a meaning ----------------------------------------------------------------


async def test_a_billing_hash_per_request_changes_nothing(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    for index in range(3):
        block = {"type": "text", "text": f"x-anthropic-billing-header: cc_version=1; cch={index}f3a;"}
        main.system = [block, {"type": "text", "text": "You are an agent."}]
        main.tool_turn(f"step {index}")
    assert causes(await outcome_of(tape)) == ["start"]


async def test_cache_marks_that_move_change_nothing(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    sent = main.messages
    for index in range(3):
        main.messages = marked(sent)
        main.tool_turn(f"step {index}")
        sent += main.messages[-2:]
    assert causes(await outcome_of(tape)) == ["start"]


def marked(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The history with a cache mark on its last block, texts as blocks only where the mark needs them."""
    messages = copy.deepcopy(messages)
    if isinstance(messages[-1]["content"], str):
        messages[-1]["content"] = [{"type": "text", "text": messages[-1]["content"]}]
    messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return messages


async def test_a_clock_in_the_system_prompt_forks_each_time_and_loses_nothing(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    for minute in range(3):
        main.messages[0] = {"role": "system", "content": f"It is 10:0{minute}."}
        main.tool_turn(f"step {minute}")
    shown = await outcome_of(tape)
    assert forks(shown) == [(1, 0, "history_edited"), (2, 0, "history_edited")]


@pytest.mark.parametrize(("harness", "is_one_reply"), [(Chat, False), (Claude, False), (Chat, True)])
async def test_calls_that_a_server_gave_the_same_id_are_told_apart(
    outcome_of: Outcome, monkeypatch: pytest.MonkeyPatch, harness: type[Chat], is_one_reply: bool
) -> None:
    tape = Tape()
    new_id = tape.new_id
    is_call = {"call": "call_0", "toolu": "call_0"}
    monkeypatch.setattr(tape, "new_id", lambda prefix: is_call.get(prefix) or new_id(prefix))
    main = harness(tape)
    if is_one_reply:
        main.turn(None, "a", "b")
        main.results("1", "2")
    for command in "cde":
        main.tool_turn(command)
    main.turn("Done.")
    assert causes(await outcome_of(tape)) == ["start"]


async def test_calls_without_an_id_are_followed(outcome_of: Outcome, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape()
    monkeypatch.setattr(tape, "new_id", lambda prefix: "")
    main = Chat(tape)
    main.tool_turn("a")
    main.tool_turn("b")
    main.turn("Done.")
    assert causes(await outcome_of(tape)) == ["start"]


async def test_thoughts_that_a_server_leaves_in_the_text_change_nothing(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.turn("<think>\nOne operator.\n</think>\n\nLook.", "cat calc.py")
    main.results("ok")
    main.turn("<think>\nIt is right.\n</think>\n\nDone.")
    main.say("Check it.")
    main.messages[0]["content"] += " Be brief."
    main.turn("<think>Again.</think>Done.")
    shown = await outcome_of(tape)
    assert forks(shown) == [(2, 0, "history_edited")]


# --- beside the conversation -----------------------------------------------------------------------


@pytest.mark.parametrize("place", range(3))
async def test_a_title_is_no_fork_wherever_it_is_asked_for(outcome_of: Outcome, place: int) -> None:
    tape = Tape()
    main = Chat(tape, **OPENCODE)
    for index in range(3):
        if index == place:
            title = Chat(tape, system="You write titles.", **OPENCODE)
            title.tools = []
            title.turn("Repair of add")
        main.tool_turn(f"step {index}")
    shown = await outcome_of(tape)
    assert (sorted(causes(shown)), shown["forks"]) == (["side_call", "start"], [])
    assert shown["side_calls"] == {"title": 1}
    assert list(shown["masked"]) == ["side_call:title"]


async def test_the_last_word_is_trained_where_the_harness_takes_the_tools_away_for_it(
    outcome_of: Outcome,
) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn()
    main.tools = []
    main.turn("Repaired add() in calc.py.")
    shown = await outcome_of(tape)
    assert (shown["masked"], shown["side_calls"]) == ({}, {"other": 1})


async def test_a_sub_agent_without_tools_is_a_conversation_and_trained(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape, **OPENCODE)
    main.turn(None, "ask")
    agent = Chat(tape, task=TASK, x_session_id="sub", x_parent_session_id="main")
    agent.tools = []
    agent.turn("It subtracts.")
    main.results("It subtracts.")
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (causes(shown), shown["sub_agents"]) == (["start", "sub_agent"], 1)
    assert (shown["masked"], shown["side_calls"]) == ({}, {})


async def test_a_probe_for_one_token_is_not_trained(outcome_of: Outcome) -> None:
    tape = Tape()
    probe = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "quota"}]}
    reply = {"content": [{"type": "text", "text": "#"}], "stop_reason": "max_tokens"}
    tape.add("/v1/messages", probe, {"status": 200, "json": reply}, **CLAUDE)
    main = Claude(tape, **CLAUDE)
    main.tool_turn()
    shown = await outcome_of(tape)
    assert (causes(shown), shown["masked"]) == (["side_call", "start"], {"side_call:probe": 1})


async def test_requests_that_nobody_samples_for_are_answered(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Claude(tape, **CLAUDE)
    tape.add("/", None, {"status": 200}, method="HEAD")
    main.tool_turn()
    tape.add("/v1/messages/count_tokens?beta=true", main.body(), {"status": 200, "json": {"input_tokens": 5}})
    tape.add("/v1/models", None, {"status": 200, "json": {"data": []}}, method="GET")
    tape.add("/v1/model/info", None, {"status": 404, "json": {}}, method="GET")
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (shown["turns"], causes(shown), shown["errors"]) == (2, ["start"], [])


async def test_an_answer_of_another_kind_is_told(outcome_of: Outcome) -> None:
    tape = Tape()
    Chat(tape).turn("Done.")
    tape.add("/v1/embeddings", {"input": "x"}, {"status": 200, "json": {}})
    (error,) = (await outcome_of(tape))["errors"]
    assert (error["n"], error["recorded"], error["got"]) == (2, 200, 404)


async def test_other_tools_are_a_fork(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape)
    main.tool_turn()
    main.tools.append(tool("search", "query"))
    main.turn("Done.")
    assert forks(await outcome_of(tape)) == [(1, 3, "tools_changed")]


# --- whose call is it ------------------------------------------------------------------------------


async def test_a_conversation_resumed_under_another_name_goes_on(outcome_of: Outcome) -> None:
    for name in ("x_session_id", "x_claude_code_session_id", "x_litellm_session_id"):
        tape = Tape()
        main = Chat(tape, **{name: "first"})
        main.tool_turn()
        main.turn("I am done with the first part.")
        main.headers = {name: "second"}
        main.say("Go on.")
        main.tool_turn()
        main.turn("Done.")
        shown = await outcome_of(tape)
        assert (causes(shown), shown["sub_agents"]) == (["start"], 0)


async def test_rollouts_in_one_file_are_sessions_of_their_own(outcomes: Outcomes) -> None:
    tape = Tape()
    talks = [Chat(tape, x_session_id=f"rollout{i}") for i in range(2)]
    for talk in (*talks, *reversed(talks)):
        talk.tool_turn()
    talks[1].turn("Done.")
    assert [(one["turns"], causes(one)) for one in await outcomes(tape)] == [(2, ["start"]), (3, ["start"])]


async def test_rollouts_of_a_task_that_names_what_others_ran_stay_apart(outcomes: Outcomes) -> None:
    tape = Tape()
    for name in "ab":
        talk = Chat(tape, task=f"{TASK} Use python -m pytest -q.", x_session_id=name)
        talk.tool_turn("python -m pytest -q")
        talk.turn("Done.")
    assert [(one["turns"], causes(one)) for one in await outcomes(tape)] == [(2, ["start"])] * 2


async def test_rollouts_are_told_apart_by_the_secret_in_the_path(outcomes: Outcomes) -> None:
    tape = Tape()
    for secret in ("one", "two", "one"):
        Chat(tape, task=f"Task of {secret}.").turn("Done.")
        tape.lines[-1]["path"] = f"/rollout/{secret}/v1/chat/completions"
    assert [one["turns"] for one in await outcomes(tape)] == [2, 1]


async def test_a_sub_agent_that_names_no_parent_is_known_by_its_prompt(outcome_of: Outcome) -> None:
    tape = Tape()
    main = Chat(tape, x_litellm_session_id="main")
    main.turn(None, "List the files of the repository.")
    agent = Chat(tape, task="List the files of the repository.", x_litellm_session_id="sub")
    agent.tool_turn()
    main.results("calc.py")
    main.turn("Done.")
    shown = await outcome_of(tape)
    assert (shown["sub_agents"], causes(shown)) == (1, ["start", "sub_agent"])
