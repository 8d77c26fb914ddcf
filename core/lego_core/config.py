"""The recipe: every knob of a run, validated before anything starts.

One section per part; unknown keys and wrong types are refused. Defaults are those of the paper's Table 10 where it
has one. Free of torch, so that faces can check a recipe. Reads no file (`recipe_file.py` does) and does not look at
the machine (`lego validate` does).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from lego_harness.adapters.options import CommandConfig, HarnessOptions
from lego_harness.types import FindingKind, Policy

Fraction = Annotated[float, Field(ge=0, le=1)]
Metric = Literal[
    "reward", "rollouts", "groups", "graded", "ungraded", "zero_variance", "response_tokens", "turns",
    "tokens_per_turn", "truncated", "malformed", "silent", "dominated", "entropy", "kl_loss", "pearson_r",
    "mean_abs_dlogp", "k3", "grad_norm", "loss", "clip_fraction", "routing_coverage", "expert_overlap",
    "top1_agreement", "staleness", "unearned",
]  # fmt: skip
"""What is measured on each step; `lego_core.health.series` says how."""


class Section(BaseModel):
    """Base of every recipe section: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RunConfig(Section):
    name: str = Field(default="run", pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
    runs_dir: str = "runs"
    seed: int = Field(default=0, ge=0, lt=2**31)


BUILT_POLICIES = ("tiny", "smollm2")
"""Names that `model.path` may have instead of a checkpoint folder; they are built on the spot, for the recipe's harness."""


class ModelConfig(Section):
    """`path = "tiny"` builds the tiny policy for the recipe's harness, `"smollm2"` a small language model; anything else
    is a checkpoint folder."""

    path: str = "tiny"
    template_options: dict[str, bool | int | float | str] = {}
    """Switches of the checkpoint's chat template, such as `enable_thinking`; see its model card."""


class TasksConfig(Section):
    """`pool = "synth"` generates tasks; anything else is a folder of task folders."""

    pool: str = "synth"
    num_train: int = Field(default=64, ge=1)
    num_heldout: int = Field(default=96, ge=1)


class HarnessConfig(Section):
    """Which program, and its `HarnessOptions`."""

    name: Literal["mini-swe-agent", "claude-code", "opencode", "codex", "openhands", "command"] = (
        "mini-swe-agent"
    )
    subagents: bool = False
    context_tokens: int = Field(default=131_072, ge=1024)
    command: CommandConfig | None = None

    @model_validator(mode="after")
    def _has_a_table_where_it_needs_one(self) -> HarnessConfig:
        if (self.name == "command") != (self.command is not None):
            raise ValueError('name = "command" and a table [harness.command] go together')
        return self

    @property
    def options(self) -> HarnessOptions:
        return HarnessOptions(
            subagents=self.subagents, context_tokens=self.context_tokens, command=self.command
        )


class SandboxConfig(Section):
    backend: Literal["auto", "docker", "gvisor", "bubblewrap"] = "auto"


class RolloutConfig(Section):
    group_size: int = Field(default=8, ge=1)
    groups_per_step: int = Field(default=64, ge=1)
    temperature: float = Field(default=1.0, gt=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_turns: int = Field(default=200, ge=1)
    max_tokens: int = Field(default=170_000, ge=1)
    """Sampled tokens of one rollout."""
    max_tokens_per_turn: int = Field(default=8192, ge=1)
    max_seconds: float = Field(default=2400.0, gt=0)
    num_workers: int = Field(default=1, ge=1)
    """Processes that run rollouts."""
    concurrency: int = Field(default=4, ge=1)
    """Rollouts in flight per worker."""
    integrity: dict[FindingKind, Policy] = {}
    """What each finding of an integrity report does, where it differs from the default: a forged verdict earns 0,
    everything else is only flagged."""
    max_staleness: int = Field(default=1, ge=0)
    """Versions a token may be older than the weights it trains; 0 is synchronous."""

    @field_validator("top_p")
    @classmethod
    def _is_the_whole_distribution(cls, top_p: float) -> float:
        if top_p != 1:
            raise ValueError("the trainer recomputes log-probabilities of the whole distribution, expected 1")
        return top_p


class TrainConfig(Section):
    steps: int = Field(default=126, ge=1)
    learning_rate: float = Field(default=1e-6, ge=0)
    learning_rate_left: float = Field(default=1.0, ge=0, le=1)
    """Share of the learning rate that is left at the last step, falling linearly; 1 keeps it constant."""
    adam_betas: tuple[Fraction, Fraction] = (0.9, 0.999)
    adam_eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    grad_clip: float = Field(default=1.0, gt=0)
    updates_per_batch: int = Field(default=1, ge=1)
    objective: Literal["gspo", "grpo", "dapo", "cispo", "dr_grpo"] = "gspo"
    clip_low: float = Field(default=3e-4, gt=0, le=1)
    clip_high: float = Field(default=4e-4, gt=0)
    """Both defaults are GSPO's, whose ratio is a mean over a rollout and a thousand times closer to 1."""
    old_logprobs: Literal["recompute", "rollout"] = "recompute"
    """Whose log-probabilities are the ratio's denominator: the trainer's at the start of the step, or
    the engine's, whose rounding alone moves the ratio."""
    rollout_correction: Literal["off", "truncate", "mask"] = "off"
    correction_bound: float = Field(default=2.0, gt=1)
    """Upper bound of a token's importance weight, trainer over engine; `mask` also drops weights below its inverse."""
    kl_coef: float = Field(default=1e-3, ge=0)
    advantage_std: bool = True
    """Divide centred rewards by the group's unbiased standard deviation."""
    routing_replay: bool = True
    micro_batch_tokens: int = Field(default=16_384, ge=1)
    """Positions of one forward pass."""
    packing: bool = False
    """Put samples one after another in a single row, with what branches share only once, instead of a padded row each."""
    activation_checkpointing: bool = False
    """Recompute a layer in backward, all but its softmax attention, instead of keeping its activations."""
    num_ranks: int = Field(default=1, ge=1)
    """Processes of the trainer, with one GPU each; weights are sharded over all of them."""
    expert_parallel: int = Field(default=1, ge=1)
    """Ranks over which the experts of a layer are split."""
    context_parallel: int = Field(default=1, ge=1)
    """Ranks that share the tokens of one packed row."""
    checkpoint_every: int = Field(default=1, ge=1)
    keep_checkpoints: int = Field(default=2, ge=1)
    """The newest ones; older ones are removed."""
    timeout_s: float = Field(default=3600.0, gt=0)
    """A trainer call without an answer for this long is a failure, not a wait."""

    @model_validator(mode="after")
    def _means_something(self) -> TrainConfig:
        if self.objective != "gspo" and not {"clip_low", "clip_high"} <= self.model_fields_set:
            raise ValueError(
                f"the default clip bounds are GSPO's: {self.objective} needs clip_low and clip_high of its own, "
                "as in 0.2 and 0.28"
            )
        if self.objective == "dr_grpo" and self.advantage_std:
            raise ValueError("Dr. GRPO does not divide by the deviation: expected advantage_std = false")
        if self.num_ranks % self.expert_parallel or self.num_ranks % self.context_parallel:
            raise ValueError("expert_parallel and context_parallel must divide num_ranks")
        if self.context_parallel > 1 and not self.packing:
            raise ValueError("context_parallel cuts packed rows into slices: expected packing = true")
        if self.old_logprobs == "rollout" and self.rollout_correction != "off":
            raise ValueError(
                'with old_logprobs = "rollout" the ratio starts at the engine already: nothing is left for '
                'rollout_correction to correct, expected "off"'
            )
        return self


class EngineConfig(Section):
    dtype: Literal["float32", "bfloat16"] = "bfloat16"
    max_model_len: int = Field(default=16_384, ge=128)
    """Tokens of a prompt and its reply: more than `rollout.max_tokens_per_turn`, and at most `train.micro_batch_tokens`."""
    max_num_seqs: int = Field(default=16, ge=1)
    kv_cache_gb: float = Field(default=1.0, gt=0)
    timeout_s: float = Field(default=120.0, gt=0)
    """An engine call without an answer for this long is a failure, not a wait. Time that a call waits
    for new weights does not count; loading them has the same limit of its own."""
    replicas: int = Field(default=1, ge=1)
    """Engines that sample for training; each holds the whole model, on a GPU of its own."""
    weight_sync: Literal["full", "delta"] = "full"
    """What the trainer sends after a step: all weights, or only those whose value in `dtype` changed, which each engine
    applies to a copy it keeps for that. Either way engines hold the same weights, bit by bit."""
    weight_transfer: Literal["file", "broadcast"] = "file"
    """How they get there: through a file that every engine reads, or straight into the engines' memory, over NCCL
    between GPUs and gloo between CPUs. Then the file is only for engines that are started again later."""

    @model_validator(mode="after")
    def _broadcasts_all_weights(self) -> EngineConfig:
        if self.weight_transfer == "broadcast" and self.weight_sync == "delta":
            raise ValueError(
                'a broadcast sends all weights: weight_transfer = "broadcast" expects weight_sync = "full"'
            )
        return self


class EvalConfig(Section):
    """Held-out evaluation before the first step and after the last, and every `every` steps."""

    temperature: float = Field(default=0.7, gt=0)
    every: int = Field(default=0, ge=0)
    num_tasks: int = Field(default=96, ge=1)
    num_samples: int = Field(default=1, ge=1)
    """Rollouts of each task: the k of pass@k and pass^k."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Wall clock of one rollout; `rollout.max_seconds` if absent."""
    engines: int = Field(default=0, ge=0, le=1)
    """1: evaluations have an engine of their own and training goes on meanwhile, unless more evaluations are waiting
    than checkpoints are kept. 0: training waits for each."""


class Limit(Section):
    """A bound on the mean of a metric over the last measured steps; `lego check` fails where it is broken."""

    metric: Metric
    min: float | None = None
    max: float | None = None
    steps: int = Field(default=5, ge=1)

    @model_validator(mode="after")
    def _bounds_something(self) -> Limit:
        if self.min is None and self.max is None:
            raise ValueError("expected min, max or both")
        return self


class WatchdogPolicy(Section):
    """What happens when a run collapses: registered before it starts, in the recipe."""

    action: Literal["warn", "stop"] = "warn"
    """`stop`: stop after a checkpoint, on a broken invariant or a lasting drop of the reward, and on nothing else."""
    grace_steps: int = Field(default=8, ge=0)
    """For this many steps after a resume, only a NaN or infinite number stops the run."""
    limits: tuple[Limit, ...] = ()
    """Warnings here, failures in `lego check`."""


class ValidationConfig(Section):
    """What `lego validate` may find broken: name of the check → why that is right here. Shown everywhere."""

    waive: dict[str, str] = {}


class Recipe(Section):
    """A whole run."""

    run: RunConfig = RunConfig()
    model: ModelConfig = ModelConfig()
    tasks: TasksConfig = TasksConfig()
    harness: HarnessConfig = HarnessConfig()
    sandbox: SandboxConfig = SandboxConfig()
    rollout: RolloutConfig = RolloutConfig()
    train: TrainConfig = TrainConfig()
    engine: EngineConfig = EngineConfig()
    eval: EvalConfig = EvalConfig()
    watchdog: WatchdogPolicy = WatchdogPolicy()
    validation: ValidationConfig = ValidationConfig()
