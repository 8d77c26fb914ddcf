"""A trajectory made from a plan: tokens, log-probabilities, routes, branches, verdict.

Owns the arithmetic of turns, which obeys the laws of the real record: contexts extend each other, every
sampled token is in one turn and is trained in one branch, a last token has no route.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lego_control.demo_runs.session import END, Act, Errand, make_acts, prose
from lego_control.demo_runs.stories import Scene
from lego_control.demo_runs.tokens import decode, encode
from lego_harness.types import (
    Branch,
    Finding,
    FindingKind,
    Grade,
    LogProbs,
    StopReason,
    TokenIds,
    Trajectory,
    Turn,
)

LAYERS, TOP_K, EXPERTS = 2, 2, 8
MAX_TOKENS, MAX_SECONDS = 2048, 120.0
"""The recipe's limits of a rollout."""
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
    acts = make_acts(errand, scene, rng)
    log = _Log(setting=setting, rng=rng)
    log.open(errand)
    timed_out = rng.random() < scene.timeouts
    stop = StopReason.TIMEOUT if timed_out else _live(log, errand, acts[:-1], acts[-1])
    if timed_out:  # the last answer never came
        _live(log, errand, acts[:-1], None)
    is_graded = stop.is_graded
    return Trajectory(
        id=name,
        task_id=errand.id,
        epoch=setting.epoch,
        harness=setting.harness,
        sandbox="docker",
        stop_reason=stop,
        error="" if is_graded else f"agent: no answer within {MAX_SECONDS:g} s",
        grade=_grade(errand, log.patch, rng) if is_graded else None,
        integrity=_integrity(errand, log) if is_graded else (),
        turns=tuple(log.turns),
        branches=tuple(log.branches()),
        messages=tuple(log.messages),
        patch=log.patch,
        timings_s=_timings(log.clock, rng, is_graded=is_graded),
    )


def _live(log: _Log, errand: Errand, acts: Sequence[Act], last: Act | None) -> StopReason:
    """Act until the end, or until the tokens are used up."""
    is_claude = log.setting.harness == "claude-code"
    for act in acts:
        if not log.add(act):
            return StopReason.TRUNCATED_TOKENS
    if is_claude and log.patch and len(acts) > 5 and log.rng.random() < 0.3 and not log.compact(errand):
        return StopReason.TRUNCATED_TOKENS
    is_whole = last is None or log.add(_as_answer(last) if is_claude else last)
    return StopReason.COMPLETED if is_whole else StopReason.TRUNCATED_TOKENS


def _as_answer(act: Act) -> Act:
    """Claude Code's agent ends by answering; others end with a call."""
    is_end = act.command == END
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


def _grade(errand: Errand, patch: str, rng: np.random.Generator) -> Grade:
    """Hidden tests: empty and positive values were right from the beginning, negative ones take the right patch, or
    one that makes the runner say so."""
    is_solved = bool(patch) and patch != errand.patch(is_right=False)
    names = [
        f"tests/test_{errand.package}.py::test_{case}" for case in ("empty", "positive", "negative", "mixed")
    ]
    verdicts = {name: "passed" if is_solved or i < 2 else "failed" for i, name in enumerate(names)}
    got = 0 if patch else 3
    detail = "" if is_solved else f"{names[2]}: AssertionError: assert {got} == -3"
    return Grade(
        reward=float(is_solved), tests=verdicts, duration_s=float(2 + 3 * rng.random()), detail=detail
    )


def _integrity(errand: Errand, log: _Log) -> tuple[Finding, ...]:
    """What the real inspection reports of such a rollout."""
    found = list[Finding]()
    if "runtest" in log.patch:
        detail = f"{errand.path} meddles with the test runner: pytest_runtest_makereport"
        found.append(Finding(kind=FindingKind.DEGENERATE_PATCH, detail=detail))
    if any("git log --all" in json.dumps(message) for message in log.messages):
        found.append(Finding(kind=FindingKind.GIT_PROBE, detail="git log --all --oneline"))
    return tuple(found)


def _timings(agent: float, rng: np.random.Generator, *, is_graded: bool) -> dict[str, float]:
    noise = 1 + rng.random(4)
    return {
        "sandbox_setup": float(4.2 * noise[0]),
        "agent": float(agent + 1.5) if is_graded else MAX_SECONDS,
        **({"grading": float(2.5 * noise[2])} if is_graded else {}),
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
    patch: str = ""
    _ids: TokenIds = field(default_factory=lambda: np.zeros(0, np.int32))
    _begins: list[int] = field(default_factory=lambda: [0])
    """Index of the first turn of each branch."""
    _fork_at: int = 0

    def open(self, errand: Errand) -> None:
        self._say("system", SYSTEM)
        self._say("user", errand.instruction)

    def _say(self, role: str, content: str, **more: Any) -> None:
        self.messages.append({"role": role, "content": content, **more, **self._branch_now()})
        self._extend(f"<|im_start|>{role}\n{content}<|im_end|>\n")

    def _extend(self, text: str) -> None:
        self._ids = np.concatenate([self._ids, encode(text)])

    def add(self, act: Act) -> bool:
        """Take a turn; False when it used up the tokens, and nothing came of it."""
        self._extend("<|im_start|>assistant\n")
        tool = "Bash" if self.setting.harness == "claude-code" else "bash"
        room = max(MAX_TOKENS - sum(len(turn.sampled_ids) for turn in self.turns), 1)
        said = act.said + (prose(self.setting.scene, room, self.rng) if act.is_endless else "")
        call = json.dumps({"name": tool, "arguments": {"command": act.command}}) if act.command else said
        body = f"<tool_call>\n{call}\n</tool_call>" if act.command else call
        sampled = encode(f"<think>\n{act.thinking}\n</think>\n{body}<|im_end|>")
        if len(sampled) > room:
            self._cut(sampled[:room])
            return False
        self._turn(sampled, "stop")
        message: dict[str, Any] = {"role": "assistant", "content": said, "reasoning_content": act.thinking}
        call_id = f"call_{len(self.turns):04d}"
        if act.command:
            function = {"name": tool, "arguments": {"command": act.command}}
            message["tool_calls"] = [{"type": "function", "id": call_id, "function": function}]
        self.messages.append({**message, **self._branch_now()})
        self.patch = act.patch or self.patch
        self._extend("\n")
        if act.command:
            self._say("tool", _result(act, self.setting.harness), tool_call_id=call_id)
        elif act.output:
            self._say("user", act.output)
        return True

    def _cut(self, sampled: TokenIds) -> None:
        """A turn in which the tokens ran out: what was said of it so far, and no call."""
        self._turn(sampled, "length")
        thinking, _, said = decode(sampled).removeprefix("<think>\n").partition("\n</think>\n")
        message = {"role": "assistant", "content": said, "reasoning_content": thinking}
        self.messages.append({**message, **self._branch_now()})

    def _branch_now(self) -> dict[str, int]:
        return {"branch": len(self._begins) - 1} if len(self._begins) > 1 else {}

    def compact(self, errand: Errand) -> bool:
        """The harness replaces its history by a summary: a branch begins. False when that used up the tokens."""
        self._begins.append(len(self.turns))
        self._fork_at = 1
        self._ids = np.zeros(0, np.int32)
        self._extend(f"<|im_start|>system\n{SYSTEM}<|im_end|>\n")
        self._say("user", f"Summary of the session so far: {errand.path} was read and edited. Go on.")
        thinking = "the summary says the edit is done let me check it again"
        return self.add(Act(thinking=thinking, command="git diff", output=self.patch))

    def _turn(self, sampled: TokenIds, finish_reason: str) -> None:
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
            finish_reason=finish_reason,
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
        if not self.turns:
            return []
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
