"""The tools that start and end jobs, and which of their calls a person is asked about.

Nobody is asked about a smoke validation within its usual budget, nor about the end of a job that this server started.
A person types the run's name before a validation that may hold the machine, and the accelerators that a run trains on,
for longer; and the job's name before the end of a job that somebody else may be waiting for. Annotations are not
postponed, because the schemas are made from them.
"""

from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import Field

from lego_control import schemas
from lego_control.asking import Questions, Typed, TypedJob, typed
from lego_control.failures import Refusal
from lego_control.fence import line
from lego_control.jobs import Jobs
from lego_control.registering import ACTS, IDEMPOTENT, add

FREE_PROFILE, FREE_S = "smoke", 20 * 60.0
Profile = Annotated[str, Field(description="smoke, parity or full.")]
Budget = Annotated[str, Field(pattern=r"^\d{1,4}[smh]$")]
Key = Annotated[str, Field(description="The same key names the same job.", max_length=80)]


def job_tools(server: MCPServer, jobs: Jobs, recipes: Path) -> None:
    questions = Questions()

    def about_proof(recipe: str, profile: str, budget: str, ctx: Context) -> Elicit[Typed] | Typed:
        if is_free(profile, budget):
            return Typed(run_name="")
        about = ("validate", recipe, profile, budget)
        return questions.ask(ctx, about, lambda: _question(recipes, recipe, profile, budget), Typed)

    def about_end(job: str, ctx: Context) -> Elicit[TypedJob] | TypedJob:
        if jobs.is_ours_to_end(job):
            return TypedJob(job=job)
        told = f"An agent wants to end the job {line(job, 40)}, which it did not start. Type the job's name to allow it."
        return questions.ask(ctx, ("end", job), lambda: told, TypedJob)

    def validation_start(
        recipe: Annotated[str, Field(max_length=300)],
        answer: Annotated[ElicitationResult[Typed], Resolve(about_proof)],
        profile: Profile = "smoke",
        budget: Budget = "20m",
        key: Key = "",
    ) -> schemas.Job:
        from lego_control.tools import act

        path = act.recipe_below(recipes, recipe)
        if not is_free(profile, budget) and typed(answer) != act.name_of_run(path):
            raise _declined("nothing was started", "a smoke validation within 20m asks nobody")
        return jobs.validate(path, profile, budget, key)

    def job_cancel(
        job: Annotated[str, Field(max_length=80)],
        answer: Annotated[ElicitationResult[TypedJob], Resolve(about_end)],
    ) -> schemas.Job:
        if typed(answer) != job:
            raise _declined("the job goes on", "job_get tells how it stands")
        return jobs.cancel(job)

    add(
        server,
        validation_start,
        "validation_start",
        "Prove a recipe before it is run; returns a job at once. A person is asked to type the run's name for another "
        "profile than smoke and for more than 20m.",
        IDEMPOTENT,
    )
    add(
        server,
        job_cancel,
        "job_cancel",
        "End a job. A person is asked to type its name if another session started it.",
        ACTS,
    )


def is_free(profile: str, budget: str) -> bool:
    """Whether a validation costs so little that nobody is asked."""
    from lego_control.ci.waiting import seconds_of

    return profile == FREE_PROFILE and seconds_of(budget) <= FREE_S


def _question(recipes: Path, recipe: str, profile: str, budget: str) -> str:
    from lego_control.tools import act

    path = act.recipe_below(recipes, recipe)
    name = act.name_of_run(path)
    return (
        f"An agent wants to validate {line(recipe, 300)} by the profile {line(profile, 20)}, which may hold this machine "
        f"for {budget}. Type {name} to allow it."
    )


def _declined(told: str, next_step: str) -> Refusal:
    return Refusal("declined", f"the name was not typed by a person: {told}", next_step)
