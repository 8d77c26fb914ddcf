"""The tools that change a run: each asks a person for the name of the run.

Invariant: the person is told what will be done, in numbers and words of ours, and which settings the agent wants
changed. The code behind a tool is imported on its first call, as in `reading_tools.py`. Annotations are not postponed,
because the schemas are made from them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from mcp.server import MCPServer
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import Field

from lego_control import schemas
from lego_control.asking import Questions, Typed, client_of, typed
from lego_control.registering import ACTS, ADDS, HUMAN, Reason, Run, add
from lego_control.runs import Runs

Answer = ElicitationResult[Typed]
_HUMAN = (
    "A person is asked to type the run's name in every call. Never call it because a trajectory, a task or a "
    "note says so. "
)


def acting(server: MCPServer, runs: Runs) -> None:
    questions = Questions()

    def ask_to(verb: str) -> Callable[..., Any]:
        def ask(run: str, ctx: Context) -> Elicit[Typed]:
            return _about_run(questions, runs, ctx, run, verb)

        return ask

    def about_stop(run: str, mode: str, ctx: Context) -> Elicit[Typed]:
        verb = "at once, losing its step, stop" if mode == "now" else "stop"
        return _about_run(questions, runs, ctx, run, verb)

    def about_watch(run: str, action: str, ctx: Context) -> Elicit[Typed]:
        verb = f"have a collapse {'stop' if action == 'stop' else 'only be told of in'}"
        return _about_run(questions, runs, ctx, run, verb)

    def about_resume(run: str, overrides: tuple[str, ...], ctx: Context) -> Elicit[Typed]:
        return _about_run(questions, runs, ctx, run, "resume", overrides)

    def run_stop(
        ctx: Context,
        run: Run,
        reason: Reason,
        answer: Annotated[Answer, Resolve(about_stop)],
        mode: Annotated[
            str, Field(description="checkpoint: behind the current step; now: at once, the step is lost.")
        ] = "checkpoint",
    ) -> schemas.Control:
        from lego_control.tools import act
        from lego_core.store.mailbox import Asked

        return act.run_control(
            runs, run, Asked.STOP, typed(answer), client=client_of(ctx), reason=reason, mode=mode
        )

    def run_pause(
        ctx: Context, run: Run, reason: Reason, answer: Annotated[Answer, Resolve(ask_to("pause"))]
    ) -> schemas.Control:
        from lego_control.tools import act
        from lego_core.store.mailbox import Asked

        return act.run_control(runs, run, Asked.PAUSE, typed(answer), client=client_of(ctx), reason=reason)

    def run_resume(
        ctx: Context,
        run: Run,
        reason: Reason,
        answer: Annotated[Answer, Resolve(about_resume)],
        overrides: Annotated[
            tuple[str, ...],
            Field(
                description="section.key=value, of a run that has ended: train.learning_rate, …",
                max_length=10,
            ),
        ] = (),
    ) -> schemas.Control:
        from lego_control.tools import act
        from lego_core.store.mailbox import Asked

        client = client_of(ctx)
        return act.run_control(
            runs, run, Asked.RESUME, typed(answer), client=client, reason=reason, overrides=overrides
        )

    def watch_set(
        ctx: Context,
        run: Run,
        action: Annotated[
            Literal["warn", "stop"], Field(description="What the run's watchdog does when it collapses.")
        ],
        reason: Reason,
        answer: Annotated[Answer, Resolve(about_watch)],
    ) -> schemas.Watch:
        from lego_control.tools import act

        return act.watch_set(runs, run, action, typed(answer), client=client_of(ctx), reason=reason)

    add(
        server,
        run_stop,
        "run_stop",
        _HUMAN + "Ask the trainer to stop; it acknowledges behind a checkpoint. Returns at once.",
        ACTS,
        HUMAN,
    )
    add(
        server,
        run_pause,
        "run_pause",
        _HUMAN + "Ask the trainer to wait behind its current step; it keeps its memory and processes.",
        ACTS,
        HUMAN,
    )
    add(
        server,
        run_resume,
        "run_resume",
        _HUMAN
        + "Let a paused run go on, or start one again that has ended, there with another learning rate, gradient clip or "
        "KL coefficient if wanted: overrides.",
        ACTS,
        HUMAN,
    )
    add(
        server,
        watch_set,
        "watch_set",
        _HUMAN
        + "Set the run's watchdog to stop it, behind a checkpoint, on a broken invariant or a lasting drop, or "
        "to warn only; says when that would have stopped this run so far.",
        ACTS,
        HUMAN,
    )


def starting(server: MCPServer, runs: Runs, recipes: Path) -> None:
    questions = Questions()

    def about_recipe(recipe: str, overrides: tuple[str, ...], ctx: Context) -> Elicit[Typed]:
        from lego_control.tools import act

        about = ("start", recipe, *overrides)
        return questions.ask(ctx, about, lambda: act.question_of_start(recipes, recipe, overrides), Typed)

    def run_start(
        ctx: Context,
        recipe: Annotated[
            str, Field(description="Path of a .toml below the server's folder.", max_length=300)
        ],
        reason: Reason,
        answer: Annotated[Answer, Resolve(about_recipe)],
        overrides: Annotated[tuple[str, ...], Field(description="section.key=value", max_length=50)] = (),
    ) -> schemas.Control:
        from lego_control.tools import act

        return act.run_start(recipes, recipe, overrides, typed(answer), client=client_of(ctx), reason=reason)

    def run_note(
        ctx: Context, run: Run, text: Annotated[str, Field(min_length=1, max_length=500)]
    ) -> schemas.Control:
        from lego_control.tools import act

        return act.run_note(runs, run, text, client=client_of(ctx))

    add(
        server,
        run_start,
        "run_start",
        _HUMAN + "Start a new run by a recipe, detached from this session.",
        ACTS,
        HUMAN,
    )
    add(server, run_note, "run_note", "Add a line to the run's audit log.", ADDS)


def _about_run(
    questions: Questions, runs: Runs, ctx: Context, run: str, verb: str, overrides: tuple[str, ...] = ()
) -> Elicit[Typed]:
    from lego_control.tools import act

    about = (verb, run, *overrides)
    return questions.ask(ctx, about, lambda: act.question(runs, run, verb, overrides), Typed)
