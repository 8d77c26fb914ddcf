"""A trajectory as OpenTelemetry spans of the GenAI conventions (status: development), in OTLP JSON.

One trace per rollout: an `invoke_agent` span with a `chat` span per turn. The run keeps times relative to the
rollout's beginning and spans count from the Unix epoch, so durations and order are right but dates are not.
"""

from __future__ import annotations

import hashlib
from typing import Any

from lego_harness.types import Trajectory, Turn

_CLIENT, _INTERNAL = 3, 1


def as_span_lines(trajectory: Trajectory, run: str) -> dict[str, Any]:
    """One line of an OTLP JSON file."""
    trace = hashlib.sha256(f"{run}/{trajectory.id}".encode()).hexdigest()[:32]
    root = trace[:16]
    end = max((turn.ended_s for turn in trajectory.turns), default=0.0)
    agent = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": trajectory.harness,
        "gen_ai.conversation.id": trajectory.id,
        "lego.task": trajectory.task_id,
        "lego.stop_reason": trajectory.stop_reason.value,
        "lego.reward": trajectory.grade.reward if trajectory.grade else None,
    }
    spans = [_span(trace, root, "", f"invoke_agent {trajectory.harness}", _INTERNAL, 0.0, end, agent)]
    spans += [_turn(trace, root, turn) for turn in trajectory.turns]
    resource = {"attributes": _attributes({"service.name": "lego-rl", "lego.run": run})}
    return {
        "resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": {"name": "lego"}, "spans": spans}]}]
    }


def _turn(trace: str, root: str, turn: Turn) -> dict[str, Any]:
    identity = hashlib.sha256(f"{trace}/{turn.index}".encode()).hexdigest()[:16]
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.usage.input_tokens": len(turn.context_ids),
        "gen_ai.usage.output_tokens": len(turn.sampled_ids),
        "gen_ai.response.finish_reasons": turn.finish_reason,
        "lego.policy_version": turn.policy_version,
        "lego.masked": turn.masked,
    }
    return _span(trace, identity, root, "chat", _CLIENT, turn.started_s, turn.ended_s, told)


def _span(
    trace: str,
    span: str,
    parent: str,
    name: str,
    kind: int,
    start_s: float,
    end_s: float,
    told: dict[str, Any],
) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": span,
        "parentSpanId": parent,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": str(int(start_s * 1e9)),
        "endTimeUnixNano": str(int(end_s * 1e9)),
        "attributes": _attributes(told),
    }


def _attributes(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in told.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": str(value)}
