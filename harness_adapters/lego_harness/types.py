"""The records that flow through a rollout, from task to trajectory.

Owns their shapes and nothing else: no behaviour beyond small derived properties. Invariant: a
record is frozen once made, and every sampled token is in exactly one `Turn`.

    Task → Session{Turn…} → Trajectory{Branch…, Grade} → (training core)

Shapes: `n` context length of a call, `m` tokens sampled by it, `L` decoder layers, `K` experts
per token. Token ids are int32, log-probabilities float32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

TokenIds = NDArray[np.int32]
LogProbs = NDArray[np.float32]
Routes = NDArray[np.int8 | np.int16]
"""Routed experts `[positions, L, K]`; −1 where a position has no recorded route (law 7)."""


def routes_dtype(num_experts: int) -> type[np.int8] | type[np.int16]:
    """The narrowest type that holds every expert and −1: half the memory up to 128 experts."""
    return np.int8 if num_experts <= 128 else np.int16


def token_versions(versions: NDArray[np.int32] | None, policy_version: int, m: int) -> NDArray[np.int32]:
    """`[m]` one version for each of `m` sampled tokens."""
    return np.full(m, policy_version, np.int32) if versions is None else versions


# --- tasks -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Budget:
    """What one rollout may spend. Reaching a limit truncates the rollout; it is still graded."""

    max_turns: int = 8
    """Engine calls."""
    max_tokens: int = 4096
    """Sampled tokens over all turns."""
    max_seconds: float = 120.0
    """Wall clock of the agent phase; passing it is a timeout, which leaves the batch (law 5)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """What a task needs besides its files; nothing if any image with Python will do."""

    image: str | None = None
    """Tag of an image that the container engine already has."""
    context: Path | None = None
    """Folder whose Dockerfile makes the image, if `image` is None."""
    packed: tuple[tuple[str, Path], ...] = ()
    """Mounted read-only: path inside → squashfs or EROFS file."""
    setup: Path | None = None
    """A script that prepares the workspace before the agent starts."""
    setup_network: bool = False
    """Whether that script, and nothing after it, has the network."""
    setup_timeout_s: float = 600.0
    cpus: float = 0.0
    """The least it needs; 0 if the task does not say."""
    memory_mb: int = 0
    """Likewise."""
    disk_mb: int = 0
    """Space for written files, likewise."""

    @property
    def is_plain(self) -> bool:
        """Whether any sandbox that is large enough will do."""
        return not (self.image or self.context or self.packed or self.setup)


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """One task folder in Harbor's layout, read and checked.

    >>> Task(id="ops-0007", path=Path("tasks/ops-0007"), instruction="…", split="train")
    """

    id: str
    """Unique in its pool; the folder's name."""
    path: Path
    """The folder: task.toml, instruction.md, environment/, tests/, solution/."""
    instruction: str
    """What the agent is told, verbatim."""
    split: str = "train"
    """`train` or `heldout`."""
    tags: tuple[str, ...] = ()
    agent_timeout_s: float = 120.0
    verifier_timeout_s: float = 60.0
    surroundings: Surroundings = Surroundings()

    @property
    def workspace(self) -> Path:
        """Files the agent starts with; copied to /workspace in its sandbox."""
        return self.path / "environment" / "repo"

    @property
    def tests(self) -> Path:
        """Hidden tests: never visible in the agent's sandbox (law 6)."""
        return self.path / "tests"

    @property
    def solution(self) -> Path:
        """The reference solution, a bash script run in the workspace; only audits use it."""
        return self.path / "solution" / "solve.sh"


# --- one engine call ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Sampling:
    """How the engine samples. The proxy owns it; what a harness asks for is only recorded."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    max_tokens: int = 256
    """Upper bound per call; a budget may lower it."""
    seed: int | None = None
    """Seed of the rollout; each call derives its own from it and its turn number."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerateRequest:
    """Token-in: what the proxy asks the engine."""

    request_id: str
    context_ids: TokenIds
    """`[n]` the whole context."""
    sampling: Sampling
    stop_ids: tuple[int, ...]
    """Sampling one of these ids ends the call; the id is part of the reply."""
    routes_from: int = 0
    """First position whose routes are wanted; earlier rows were recorded by earlier turns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Generation:
    """Token-out: what the engine sampled, raw."""

    ids: TokenIds
    """`[m]` m ≥ 1."""
    logprobs: LogProbs
    """`[m]` log-probability of each sampled id under the processed distribution."""
    routes: Routes | None
    """`[n + m − 1 − routes_from, L, K]`: row t routed input position `routes_from + t`. The last
    sampled token has none. None when the model has no experts or replay is off."""
    finish_reason: str
    """`stop`, `length` or `abort`."""
    policy_version: int
    """Version of the weights that sampled these tokens; the oldest if there were several."""
    versions: NDArray[np.int32] | None = None
    """`[m]` version of each token if new weights arrived during the call; None if all are `policy_version`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Turn:
    """One engine call as captured by the proxy; never rewritten (law 1)."""

    index: int
    context_ids: TokenIds
    """`[n]` exactly the ids that were sent to the engine (law 3)."""
    sampled_ids: TokenIds
    logprobs: LogProbs
    routes: Routes | None
    """`[n + m − 1 − routes_from, L, K]`: the rows this call was first to record, row t for position
    `routes_from + t`; earlier positions were recorded by earlier turns. Rows of positions below n
    come from prefill by `policy_version`, the others from decoding by the weights that sampled the next token."""
    routes_from: int
    policy_version: int
    """Version of the oldest weights that sampled in this call."""
    finish_reason: str
    fingerprint: str
    """sha256 of the canonical request: messages, tools and dialect."""
    started_s: float
    """Seconds since the rollout began."""
    ended_s: float
    thread: str = ""
    """The conversation it belongs to, as the harness names it; empty if it does not."""
    side_call: str = ""
    """The kind of a call beside the conversation (`title`, `compaction`, …); empty for a turn of it."""
    masked: str = ""
    """Why its tokens are not trained; empty when they are (law 2)."""
    versions: NDArray[np.int32] | None = None
    """As `Generation.versions`."""

    @property
    def token_versions(self) -> NDArray[np.int32]:
        """`[m]` policy version of each sampled token."""
        return token_versions(self.versions, self.policy_version, len(self.sampled_ids))


# --- results -----------------------------------------------------------------------------------


class StopReason(StrEnum):
    """Why a rollout ended. `failed_*` and timeouts leave the batch and the baseline (law 5)."""

    COMPLETED = "completed"
    TRUNCATED_TURNS = "truncated_turns"
    TRUNCATED_TOKENS = "truncated_tokens"
    TIMEOUT = "timeout"
    FAILED_SETUP = "failed_setup"
    FAILED_ENGINE = "failed_engine"
    FAILED_HARNESS = "failed_harness"
    FAILED_ALIGNMENT = "failed_alignment"
    FAILED_GRADER = "failed_grader"
    MASKED_INTEGRITY = "masked_integrity"
    """A finding of the integrity report takes it out of the batch; it is not repeated."""
    CANCELLED = "cancelled"

    @property
    def is_graded(self) -> bool:
        """True when the rollout carries a reward and may be trained."""
        return self in (StopReason.COMPLETED, StopReason.TRUNCATED_TURNS, StopReason.TRUNCATED_TOKENS)

    @property
    def is_failure(self) -> bool:
        """True when something outside failed: the rollout may be repeated."""
        return self.value.startswith("failed_") or self is StopReason.CANCELLED

    @property
    def is_masked(self) -> bool:
        """True when the rollout could be graded, but the integrity policy keeps it out of the batch."""
        return self is StopReason.MASKED_INTEGRITY

    @property
    def is_truncated(self) -> bool:
        return self in (StopReason.TRUNCATED_TURNS, StopReason.TRUNCATED_TOKENS)


class FindingKind(StrEnum):
    """Something an agent did that threatens the meaning of its reward; the rows of an integrity report."""

    GIT_PROBE = "git_probe"
    """Looked in git for more history than it was given."""
    NETWORK_ATTEMPT = "network_attempt"
    """Tried to reach anything but the proxy."""
    TEST_EDIT = "test_edit"
    """Changed tests or their configuration; reverted before grading."""
    GRADER_PATH = "grader_path"
    """Mentioned, or wrote to, places that belong to the grader."""
    TAMPERING = "tampering"
    """Left files that Python or a shell would load by itself; reverted before grading."""
    DEGENERATE_PATCH = "degenerate_patch"
    """Its patch answers without computing: equals anything, knows the test cases, tampers with the runner."""
    FORGED_VERDICT = "forged_verdict"
    """Its code broke the grading: a test passed together with its contradiction, or the runner died."""


Policy = Literal["mask", "zero", "flag"]
"""What a finding does to a rewarded rollout: takes it out of the batch, sets the reward to 0, or is only stored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One line of an integrity report."""

    kind: FindingKind
    detail: str
    """What was seen and where; bounded, printable."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grade:
    """The verdict of one grading, reached outside the agent's sandbox."""

    reward: float
    """In [0, 1]; 1 when every hidden test passed."""
    tests: dict[str, str]
    """Test id → `passed`, `failed`, `error`, `missing`."""
    duration_s: float
    detail: str = ""
    """Bounded, control characters removed; for people."""
    durations_s: dict[str, float] = field(default_factory=dict[str, float])
    """Test id → seconds it took, as reported by its process."""
    findings: tuple[Finding, ...] = ()
    """What grading saw of the agent's integrity."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """One root-to-leaf token path of a trajectory.

    All arrays have length `T`. A token is trained iff `mask` is True there; each sampled token of
    a trajectory is True in exactly one branch, except those of turns that give a reason in
    `masked` (law 2).
    """

    ids: TokenIds
    mask: NDArray[np.bool_]
    logprobs: LogProbs
    """Rollout log-probabilities; 0 where `mask` is False."""
    versions: NDArray[np.int32]
    """Policy version of sampled tokens; −1 elsewhere."""
    routes: Routes | None
    """`[T, L, K]`; row t routed position t; −1 where absent."""
    thread: str = ""
    """The conversation it belongs to; as `Turn.thread`."""
    parent: str = ""
    """The conversation that started that one, if the harness says so."""
    cause: str = ""
    """Why it diverges from what came before: `start`, `sub_agent`, `compaction`, …"""
    at: int = 0
    """Index of the first message that differs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trajectory:
    """The record of one rollout: what was sampled, what it earned, why it ended."""

    id: str
    """Unique in a run: `s00012.g03.r5` for training, `e00012.t034.r0` for evaluation; with `~1` after it if an
    earlier attempt failed and the rollout was repeated."""
    task_id: str
    epoch: int
    harness: str
    sandbox: str
    stop_reason: StopReason
    error: str
    """Empty unless the rollout failed; one line."""
    grade: Grade | None
    """None when the reward is absent (law 5)."""
    turns: tuple[Turn, ...]
    branches: tuple[Branch, ...]
    messages: tuple[dict[str, Any], ...]
    """The canonical conversation, for people."""
    patch: str
    """The agent's exported change, unified diff; bounded."""
    integrity: tuple[Finding, ...] = ()
    """The whole report: from commands, patch and grading."""
    timings_s: dict[str, float] = field(default_factory=dict[str, float])
    """Stage → seconds: `sandbox_setup`, `agent`, `sandbox_teardown`, `grading`; `engine` is the part of `agent`
    spent in engine calls, summed."""

    @property
    def num_sampled(self) -> int:
        return sum(len(turn.sampled_ids) for turn in self.turns)
