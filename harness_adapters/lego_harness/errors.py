"""What can go wrong outside our own code, and what each failure means for the reward.

    LegoError                    one clear line: what was got, what was expected, what to do
    ├── UsageError               the caller's input is wrong: nothing was started        (exit 2)
    └── InfrastructureError      something we depend on failed: never a reward (law 5)   (exit 3)
        ├── SetupError           the sandbox, image, harness or task could not be prepared
        │   └── SandboxEnded         … it was, and code inside brought it down: no failure of ours
        ├── EngineError          the inference engine failed, hung or answered nonsense
        │   └── EngineUnavailable    … and may answer the same question a moment later
        ├── HarnessError         the harness process failed for a reason of its own
        ├── AlignmentError       captured tokens and a later request cannot be reconciled
        └── GraderError          grading could not reach a verdict

Raised plain where the fault is seen; classified once, in `outcome.py`. This module decides no
policy: which failures leave the batch is the trainer's business.
"""

from __future__ import annotations


class LegoError(Exception):
    """Base of every error shown to a person; its text is one complete, actionable line."""

    exit_code = 1


class UsageError(LegoError):
    """The caller's input (recipe, flag, task folder) is wrong; exit code 2."""

    exit_code = 2


class InfrastructureError(LegoError):
    """Something outside failed; exit code 3. `boundary` says where, for stop reasons."""

    exit_code = 3
    boundary = "infrastructure"


class SetupError(InfrastructureError):
    """A sandbox, image, harness installation or task workspace could not be prepared."""

    boundary = "setup"


class SandboxEnded(SetupError):
    """Code inside brought its own sandbox down, and nothing else can have: charged to the agent."""


class EngineError(InfrastructureError):
    """The inference engine failed, did not answer in time, or returned an invalid generation."""

    boundary = "engine"


class EngineUnavailable(EngineError):
    """The engine is restarting, paused or overloaded: the same call may be repeated."""


class HarnessError(InfrastructureError):
    """The harness process ended for a reason that is neither the policy's nor a limit's."""

    boundary = "harness"


class AlignmentError(InfrastructureError):
    """A request does not extend what was captured; training on it would be a guess."""

    boundary = "alignment"


class GraderError(InfrastructureError):
    """Grading ended without a verdict; the reward is absent, not zero."""

    boundary = "grader"
