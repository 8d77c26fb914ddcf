"""A closed session as one line of JSON, for those who capture without training.

    session, stop, error
    turns      what each engine call sampled, and which kind of call it was
    branches   token ids, which of them are trained, their log-probabilities; why each begins
    forks      where histories diverged, and why
    messages   the conversations, for people

Owns this form. Invariant: it is complete: a trainer needs nothing else.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np

from lego_harness.proxy.capture import Capture
from lego_harness.types import Branch, Routes, Turn


def as_line(name: str, capture: Capture) -> str:
    """The line, with its line break."""
    value = {
        "session": name,
        "stop": capture.stop.value if capture.stop else None,
        "error": capture.error,
        "turns": [_turn(*both) for both in zip(capture.turns, capture.asked, strict=True)],
        "branches": [_branch(branch) for branch in capture.branches],
        "forks": [
            {"turn": fork.turn, "message": fork.message, "cause": fork.cause, "detail": fork.detail}
            for fork in capture.forks
        ],
        "messages": list(capture.messages),
    }
    return json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"


def _turn(turn: Turn, asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "index": turn.index,
        "thread": turn.thread,
        "num_context": len(turn.context_ids),
        "sampled_ids": turn.sampled_ids.tolist(),
        "logprobs": turn.logprobs.tolist(),
        "policy_version": turn.policy_version,
        "finish_reason": turn.finish_reason,
        "side_call": turn.side_call,
        "masked": turn.masked,
        "started_s": round(turn.started_s, 3),
        "ended_s": round(turn.ended_s, 3),
        "asked": asked,
    }


def _branch(branch: Branch) -> dict[str, Any]:
    return {
        "thread": branch.thread,
        "parent": branch.parent,
        "cause": branch.cause,
        "at": branch.at,
        "ids": branch.ids.tolist(),
        "mask": branch.mask.astype(np.int8).tolist(),
        "logprobs": branch.logprobs.tolist(),
        "routes": None if branch.routes is None else _array(branch.routes),
    }


def _array(routes: Routes) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(routes, "<i2").tobytes()).decode("ascii")
    return {"dtype": "<i2", "shape": list(routes.shape), "data": data}
