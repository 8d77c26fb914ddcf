"""A trajectory made from a plan: tokens, log-probabilities, routes, branches, verdict.

Owns the arithmetic of turns, which obeys the laws of the real record: contexts extend each other, every
sampled token is in one turn and is trained in one branch, a last token has no route.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lego_control.demo_runs.session import Act, Errand, Plan, make_plan
from lego_control.demo_runs.stories import Scene
from lego_control.demo_runs.tokens import encode
from lego_harness.types import Branch, Grade, LogProbs, StopReason, TokenIds, Trajectory, Turn

LAYERS, TOP_K, EXPERTS = 2, 2, 8
SYSTEM = "You are an agent with one tool, bash."
NO_SPACE = "sandbox: writing the image layer failed: no space left on device"


@dataclass(frozen=True, kw_only=True, slots=True)
class Setting:
    """What all rollouts of a step share."""

    scene: Scene
    harness: str
    version: int
    epoch: int


def make_rollout(name: str, errand: Errand, setting: Setting, rng: np.random.Generator) -> Trajectory:
    """One rollout, whatever becomes of it."""
    scene = setting.scene
    if rng.random() < scene.setup_failures * (1.6 if errand.difficulty > 0 else 0.4):
        return _empty(name, errand, setting, StopReason.FAILED_SETUP, NO_SPACE, rng)
    plan = make_plan(errand, scene, rng)
    log = _Log(setting=setting, rng=rng)
    log.open(errand)
    *acts, last = plan.acts
    for act in acts:
        log.add(act)
    if setting.harness == "claude-code" and len(acts) > 5 and rng.random() < 0.3:
        log.compact(errand)
    log.add(_as_answer(last) if setting.harness == "claude-code" else last)
    timed_out = rng.random() < scene.timeouts
    stop = (
        StopReason.TIMEOUT
        if timed_out
        else StopReason.TRUNCATED_TURNS
        if plan.truncated
        else StopReason.COMPLETED
    )
    return Trajectory(
        id=name,
        task_id=errand.id,
        epoch=setting.epoch,
        harness=setting.harness,
        sandbox="docker",
        stop_reason=stop,
        error="agent: no answer within 2400 s" if timed_out else "",
        grade=None if timed_out else _grade(errand, plan, rng),
        turns=tuple(log.turns),
        branches=tuple(log.branches()),
        messages=tuple(log.messages),
        patch=plan.patch,
        timings_s=_timings(log.clock, rng),
    )


def _as_answer(act: Act) -> Act:
    """Claude Code's agent ends by answering; others end with a call."""
    is_end = act.command.startswith("echo COMPLETE_TASK")
    return Act(thinking=act.thinking, command="", said="Done.") if is_end else act


def _result(act: Act, harness: str) -> str:
    """What the harness makes of a command's output."""
    if harness == "claude-code":
        head = f"Exit code {act.returncode}\n" if act.returncode else ""
        return head + act.output or "(Bash completed with no output)"
    return json.dumps({"returncode": act.returncode, "output": act.output}, indent=2)


def _empty(
    name: str, errand: Errand, setting: Setting, stop: StopReason, error: str, rng: np.random.Generator
) -> Trajectory:
    return Trajectory(
        id=name,
        task_id=errand.id,
        epoch=setting.epoch,
        harness=setting.harness,
        sandbox="docker",
        stop_reason=stop,
        error=error,
        grade=None,
        turns=(),
        branches=(),
        messages=(),
        patch="",
        timings_s={"sandbox_setup": float(120 + 180 * rng.random())},
    )


def _grade(errand: Errand, plan: Plan, rng: np.random.Generator) -> Grade:
    solved = plan.solved and not plan.truncated
    names = [
        f"tests/test_{errand.package}.py::test_{case}" for case in ("empty", "positive", "negative", "mixed")
    ]
    verdicts = {name: "passed" if solved or i < 2 else "failed" for i, name in enumerate(names)}
    detail = "" if solved else f"{names[2]}: AssertionError: assert 3 == 1"
    return Grade(reward=float(solved), tests=verdicts, duration_s=float(2 + 3 * rng.random()), detail=detail)


def _timings(agent: float, rng: np.random.Generator) -> dict[str, float]:
    noise = 1 + rng.random(4)
    return {
        "sandbox_setup": float(4.2 * noise[0]),
        "agent": float(agent + 1.5),
        "grading": float(2.5 * noise[2]),
        "engine": float(0.7 * agent),
        "sandbox_teardown": float(0.4 * noise[3]),
    }


@dataclass(kw_only=True, slots=True)
class _Log:
    """The conversation while it grows."""

    setting: Setting
    rng: np.random.Generator
    turns: list[Turn] = field(default_factory=list[Turn])
    messages: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    clock: float = 0.0
    _ids: TokenIds = field(default_factory=lambda: np.zeros(0, np.int32))
    _begins: list[int] = field(default_factory=lambda: [0])
    """Index of the first turn of each branch."""
    _fork_at: int = 0

    def open(self, errand: Errand) -> None:
        self._say("system", SYSTEM)
        self._say("user", errand.instruction)

    def _say(self, role: str, content: str, **more: Any) -> None:
        branch = {"branch": len(self._begins) - 1} if len(self._begins) > 1 else {}
        self.messages.append({"role": role, "content": content, **more, **branch})
        self._extend(f"<|im_start|>{role}\n{content}<|im_end|>\n")

    def _extend(self, text: str) -> None:
        self._ids = np.concatenate([self._ids, encode(text)])

    def add(self, act: Act) -> None:
        self._extend("<|im_start|>assistant\n")
        tool = "Bash" if self.setting.harness == "claude-code" else "bash"
        call = json.dumps({"name": tool, "arguments": {"command": act.command}}) if act.command else act.said
        body = f"<tool_call>\n{call}\n</tool_call>" if act.command else call
        sampled = encode(f"<think>\n{act.thinking}\n</think>\n{body}<|im_end|>")
        self._turn(sampled)
        branch = {"branch": len(self._begins) - 1} if len(self._begins) > 1 else {}
        message: dict[str, Any] = {
            "role": "assistant",
            "content": act.said,
            "reasoning_content": act.thinking,
        }
        call_id = f"call_{len(self.turns):04d}"
        if act.command:
            function = {"name": tool, "arguments": {"command": act.command}}
            message["tool_calls"] = [{"type": "function", "id": call_id, "function": function}]
        self.messages.append({**message, **branch})
        self._extend("\n")
        if act.command:
            self._say("tool", _result(act, self.setting.harness), tool_call_id=call_id)
        elif act.output:
            self._say("user", act.output)

    def compact(self, errand: Errand) -> None:
        """The harness replaces its history by a summary: a branch begins."""
        self._begins.append(len(self.turns))
        self._fork_at = 1
        self._ids = np.zeros(0, np.int32)
        self._extend(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n")
        self._say("user", f"Summary of the session so far: {errand.path} is edited, tests pass. Go on.")
        self.add(Act(thinking="the summary says the edit is done let me check the suite", command="git diff"))

    def _turn(self, sampled: TokenIds) -> None:
        before = self.turns[-1] if self.turns and len(self.turns) > self._begins[-1] else None
        routes_from = len(before.context_ids) + len(before.sampled_ids) - 1 if before else 0
        rows = len(self._ids) + len(sampled) - 1 - routes_from
        begun = self.clock + 0.4
        self.clock = begun + 0.02 * len(sampled)
        turn = Turn(
            index=len(self.turns),
            context_ids=self._ids,
            sampled_ids=sampled,
            logprobs=self._logprobs(len(sampled)),
            routes=self.rng.integers(0, EXPERTS, (rows, LAYERS, TOP_K), dtype=np.int8),
            routes_from=routes_from,
            policy_version=self.setting.version,
            finish_reason="stop",
            fingerprint=f"{self.rng.integers(2**62):064x}",
            started_s=begun,
            ended_s=self.clock,
        )
        self.turns.append(turn)
        self._ids = np.concatenate([self._ids, sampled])

    def _logprobs(self, count: int) -> LogProbs:
        drawn = -self.rng.exponential(self.setting.scene.entropy, count)
        return np.round(np.minimum(drawn, 0), 3).astype(np.float32)

    def branches(self) -> list[Branch]:
        ends = [*self._begins[1:], len(self.turns)]
        return [
            self._branch(self.turns[a:b], number)
            for number, (a, b) in enumerate(zip(self._begins, ends, strict=True))
        ]

    def _branch(self, turns: list[Turn], number: int) -> Branch:
        ids = np.concatenate([turns[-1].context_ids, turns[-1].sampled_ids])
        mask, logprobs = np.zeros(len(ids), bool), np.zeros(len(ids), np.float32)
        routes = np.full((len(ids), LAYERS, TOP_K), -1, np.int8)
        for turn in turns:
            begin = len(turn.context_ids)
            mask[begin : begin + len(turn.sampled_ids)] = True
            logprobs[begin : begin + len(turn.sampled_ids)] = turn.logprobs
            assert turn.routes is not None
            routes[turn.routes_from : turn.routes_from + len(turn.routes)] = turn.routes
        return Branch(
            ids=ids,
            mask=mask,
            logprobs=logprobs,
            versions=np.where(mask, self.setting.version, -1).astype(np.int32),
            routes=routes,
            cause="compaction" if number else "start",
            at=self._fork_at if number else 0,
        )
