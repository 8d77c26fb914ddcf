"""A trajectory in ATIF 1.8, Harbor's interchange format, with what reinforcement learning needs in `extra`.

A tool's result is in the step of the agent that called it. A step of the agent carries the tokens of its turn if
it is certain which turn that was (one branch, as many replies as turns); otherwise they are all in
`extra.turns` of the root. Totals count each turn once. Redacts nothing: `redact.py` does.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from lego_control.tools.frames import message_text
from lego_harness.types import Trajectory, Turn

VERSION = "ATIF-v1.8"
_SOURCES = {"system": "system", "developer": "system", "user": "user", "assistant": "agent", "tool": "user"}
Json = dict[str, Any]


def as_atif(trajectory: Trajectory, *, run: str, with_tokens: bool = True) -> Json:
    """The document; `with_tokens` includes ids and log-probabilities, which are most of it."""
    replies = sum(message.get("role") == "assistant" for message in trajectory.messages)
    is_certain = len(trajectory.branches) <= 1 and replies == len(trajectory.turns)
    turns = trajectory.turns if is_certain else ()
    sampled = sum(len(turn.sampled_ids) for turn in trajectory.turns)
    return {
        "schema_version": VERSION,
        "session_id": run,
        "trajectory_id": trajectory.id,
        "agent": {"name": trajectory.harness, "version": "unknown"},
        "steps": _steps(trajectory.messages, turns, with_tokens),
        "final_metrics": {
            "total_prompt_tokens": sum(len(turn.context_ids) for turn in trajectory.turns),
            "total_completion_tokens": sampled,
        },
        "extra": _extra(trajectory, [] if is_certain else trajectory.turns, with_tokens),
    }


def _extra(trajectory: Trajectory, turns: Sequence[Turn], with_tokens: bool) -> Json:
    grade = trajectory.grade
    return {
        "task": trajectory.task_id,
        "group": trajectory.id.rpartition(".")[0],
        "epoch": trajectory.epoch,
        "sandbox": trajectory.sandbox,
        "stop_reason": trajectory.stop_reason.value,
        "error": trajectory.error,
        "reward": grade.reward if grade else None,
        "tests": dict(grade.tests) if grade else None,
        "patch": trajectory.patch,
        "timings_s": dict(trajectory.timings_s),
        "branches": [
            {
                "cause": b.cause,
                "at": b.at,
                "thread": b.thread,
                "num_tokens": len(b.ids),
                "num_trained": int(b.mask.sum()),
            }
            for b in trajectory.branches
        ],
        "turns": [{**_metrics(turn, with_tokens), "turn": turn.index} for turn in turns],
    }


def _steps(messages: Sequence[Json], turns: Sequence[Turn], with_tokens: bool) -> list[Json]:
    steps: list[Json] = []
    rest = list(turns)
    for message in messages:
        role = str(message.get("role"))
        if role == "tool" and (caller := _caller(steps, message)) is not None:
            caller.setdefault("observation", {"results": []})["results"].append(_result(message))
            continue
        step: Json = {
            "step_id": len(steps) + 1,
            "source": _SOURCES.get(role, "user"),
            "message": _content(message),
        }
        if role == "assistant":
            step |= _agent(message, rest.pop(0) if rest else None, with_tokens)
        if message.get("branch"):
            step["extra"] = {**step.get("extra", {}), "branch": message["branch"]}
        steps.append(step)
    return steps


def _agent(message: Json, turn: Turn | None, with_tokens: bool) -> Json:
    step: Json = {}
    if isinstance(thought := message.get("reasoning_content"), str) and thought:
        step["reasoning_content"] = thought
    if calls := [_call(call) for call in _calls(message)]:
        step["tool_calls"] = calls
    if turn is not None:
        step["llm_call_count"] = 1
        step["metrics"] = _metrics(turn, with_tokens)
    return step


def _metrics(turn: Turn, with_tokens: bool) -> Json:
    metrics: Json = {
        "prompt_tokens": len(turn.context_ids),
        "completion_tokens": len(turn.sampled_ids),
        "extra": {
            "turn": turn.index,
            "policy_version": turn.policy_version,
            "finish_reason": turn.finish_reason,
            "masked": turn.masked,
            "side_call": turn.side_call,
            "routes_from": turn.routes_from,
            "has_routes": turn.routes is not None,
            "fingerprint": turn.fingerprint,
            "started_s": turn.started_s,
            "ended_s": turn.ended_s,
        },
    }
    if with_tokens:
        metrics["prompt_token_ids"] = turn.context_ids.tolist()
        metrics["completion_token_ids"] = turn.sampled_ids.tolist()
        metrics["logprobs"] = turn.logprobs.tolist()
    return metrics


def _calls(message: Json) -> list[Json]:
    calls: Any = message.get("tool_calls")
    return (
        [cast(Json, call) for call in cast(list[Any], calls) if isinstance(call, dict)]
        if isinstance(calls, list)
        else []
    )


def _call(call: Json) -> Json:
    function = cast(Json, call.get("function") if isinstance(call.get("function"), dict) else {})
    return {
        "tool_call_id": str(call.get("id") or ""),
        "function_name": str(function.get("name") or ""),
        "arguments": _arguments(function.get("arguments")),
    }


def _arguments(value: Any) -> Json:
    """ATIF wants an object; what the policy sampled instead is kept as it is under `raw`."""
    if isinstance(value, str):
        try:
            value = json.loads(value, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return {"raw": value}
    return cast(Json, value) if isinstance(value, dict) else {"raw": value}


def _refuse(constant: str) -> None:
    """Replaces NaN and infinities, which Python's JSON reader accepts and others do not."""
    raise ValueError(constant)


def _caller(steps: list[Json], message: Json) -> Json | None:
    """The last step of the agent that made the call with this result."""
    wanted = message.get("tool_call_id")
    for step in reversed(steps):
        if any(call["tool_call_id"] == wanted for call in step.get("tool_calls", ())):
            return step
    return None


def _result(message: Json) -> Json:
    return {"source_call_id": message.get("tool_call_id"), "content": _content(message)}


def _content(message: Json) -> str:
    content = message.get("content")
    return content if isinstance(content, str) else message_text({"content": content})
