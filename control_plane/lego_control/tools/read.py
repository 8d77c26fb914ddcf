"""One trajectory, in pieces that fit: its turns as numbers, its messages fenced, its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from pydantic import BaseModel

from lego_control.failures import Refusal
from lego_control.fence import fence
from lego_control.fence import name as plain
from lego_control.runs import Runs
from lego_control.schemas import MessageView, Rollout, TurnView
from lego_control.tools.frames import load, message_text
from lego_control.tools.paging import RESULT_BYTES, page, place
from lego_control.tools.status import last_step
from lego_harness.types import Trajectory, Turn

VIEWS = ("outline", "messages", "tokens", "patch")
MAX_IDS = 400
MAX_TESTS = 40
MAX_PATCH = 8_000
AUTHORS = {"system": "harness", "user": "task", "assistant": "model", "tool": "tool"}
"""Role of a message → whose text it is."""
_BUDGET = RESULT_BYTES - 6_000
T = TypeVar("T", bound=BaseModel)


def trajectory_read(
    runs: Runs,
    run: str,
    handle: str,
    view: str = "outline",
    first: int = 0,
    count: int = 50,
    cursor: str | None = None,
) -> Rollout:
    """`first` and `count` choose turns, or messages in the messages view; `cursor` continues from an earlier page."""
    if view not in VIEWS:
        raise Refusal("bad_argument", "unknown view", f"view one of {', '.join(VIEWS)}")
    found = runs.get(run)
    trajectory = load(found, handle)
    start = place(cursor) if cursor else max(first, 0)
    turns, messages, following = list[TurnView](), list[MessageView](), None
    if view == "messages":
        messages, following = page(_messages(trajectory, start), start, count, _BUDGET)
    elif view != "patch":
        turns, following = page(_turns(trajectory, start, view == "tokens"), start, count, _BUDGET)
    grade = trajectory.grade
    tests = list(grade.tests.items())[:MAX_TESTS] if grade else []
    return Rollout(
        run=run,
        handle=handle,
        task=plain(trajectory.task_id),
        harness=plain(trajectory.harness),
        stop_reason=trajectory.stop_reason.value,
        reward=grade.reward if grade else None,
        tests={plain(test): plain(verdict) for test, verdict in tests},
        num_turns=len(trajectory.turns),
        num_messages=len(trajectory.messages),
        view=view,
        turns=turns,
        messages=messages,
        error=fence(trajectory.error, "error", 500) if trajectory.error else None,
        patch=fence(trajectory.patch, "model", MAX_PATCH) if view == "patch" and trajectory.patch else None,
        resource=f"lego://runs/{run}/trajectories/{handle}",
        next_cursor=following,
        as_of_step=last_step(found),
        stale_s=found.stale_s(),
    )


def _turns(trajectory: Trajectory, start: int, with_tokens: bool) -> Iterator[TurnView]:
    return (_turn(turn, with_tokens) for turn in trajectory.turns[start:])


def _turn(turn: Turn, with_tokens: bool) -> TurnView:
    tokens: dict[str, Any] = {}
    if with_tokens:
        ids, logprobs = turn.sampled_ids[:MAX_IDS].tolist(), turn.logprobs[:MAX_IDS].tolist()
        tokens = {"ids": ids, "logprobs": [round(value, 4) for value in logprobs]}
    return TurnView(
        turn=turn.index,
        context_tokens=len(turn.context_ids),
        sampled_tokens=len(turn.sampled_ids),
        policy_version=turn.policy_version,
        finish_reason=plain(turn.finish_reason),
        seconds=round(turn.ended_s - turn.started_s, 3),
        side_call=turn.side_call,
        masked=turn.masked,
        mean_logprob=round(float(turn.logprobs.mean()), 4) if len(turn.logprobs) else None,
        **tokens,
    )


def _messages(trajectory: Trajectory, start: int) -> Iterator[MessageView]:
    for index, message in enumerate(trajectory.messages[start:], start=start):
        role = str(message.get("role"))
        author = AUTHORS.get(role, "unknown")
        shown = role if role in AUTHORS else "unknown"
        yield MessageView(index=index, role=shown, text=fence(message_text(message), author))
