"""The tools that change something: each needs a person, and says what was recorded.

Invariant: unless a person whom the client asked has typed the run's name, nothing but a note is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lego_control import control
from lego_control.detached import start
from lego_control.failures import Refusal
from lego_control.fence import line
from lego_control.run import Run
from lego_control.runs import Runs
from lego_control.schemas import Control, Watch
from lego_control.tools.status import run_status
from lego_control.verdict import make_run_series, policy
from lego_core.config import WatchdogPolicy
from lego_core.health.backtest import backtest
from lego_core.health.policy import effective_policy, parse_policy, set_policy
from lego_core.recipe_file import load_recipe, parse_recipe
from lego_core.store.mailbox import Asked, Request
from lego_harness.errors import UsageError

MODES = ("checkpoint", "now")
MAX_CHANGE = 200
NOT_TYPED = "the run's name was not typed by a person: nothing was asked of the run"


def question(runs: Runs, run: str, verb: str, overrides: Sequence[str] = ()) -> str:
    """What a person is told before they type: numbers of ours and the changes the agent wants, nothing that the
    policy wrote."""
    told = run_status(runs, run)
    control.changes_for(runs.get(run), overrides)
    age = (
        "no checkpoint"
        if told.checkpoint_age_s is None
        else f"checkpoint {told.checkpoint_step}, {told.checkpoint_age_s:.0f} s old"
    )
    reward = "none" if told.signals["reward_mean"] is None else f"{told.signals['reward_mean']:.3f}"
    return (
        f"An agent wants to {verb} the run {run}{_changes(overrides)}: {told.state}, step {told.step} of {told.num_steps}, reward {reward}, "
        f"verdict {told.verdict}, {age}. Type the run's name to allow it."
    )


def question_of_start(folder: Path, recipe: str, overrides: Sequence[str]) -> str:
    """The same for a new run: which recipe, and every setting that the agent wants changed."""
    path = recipe_below(folder, recipe)
    name = load_recipe(path, overrides).run.name
    told = line(str(path.relative_to(folder.resolve())), 300)
    return (
        f"An agent wants to start a run named {name} by {told}{_changes(overrides)}. Type {name} to allow it."
    )


def _changes(overrides: Sequence[str]) -> str:
    told = "; ".join(line(override, MAX_CHANGE) for override in overrides)
    return f" with its changes {told}" if told else ""


def run_control(
    runs: Runs,
    run: str,
    asked: Asked,
    typed: str | None,
    *,
    client: str,
    reason: str,
    mode: str = "checkpoint",
    overrides: Sequence[str] = (),
) -> Control:
    """Stop, pause or resume, with changes of the recipe. `typed` is None if the person declined."""
    if mode not in MODES:
        raise Refusal("bad_argument", "unknown mode", f"one of {', '.join(MODES)}")
    found = runs.get(run)
    if typed != run:
        return _declined(found)
    told = {"who": control.through(client), "via": "mcp", "why": reason}
    flags = control.changes_for(found, overrides)
    if asked is Asked.RESUME and not found.is_running():
        start(["--resume", str(found.layout.root), *flags], **told)
        return Control(
            run=run,
            state="started",
            request_id=None,
            last_checkpoint=_checkpoint(found),
            text="it goes on; run_status shows it",
        )
    if asked is Asked.STOP and mode == "now":
        request = control.stop_now(found, **told)
    else:
        request = control.ask(found, asked, **told)
    text = "the trainer answers behind its current step, with a checkpoint; run_status shows it"
    return Control(
        run=run, state="requested", request_id=request.id, last_checkpoint=_checkpoint(found), text=text
    )


def watch_set(runs: Runs, run: str, action: str, typed: str | None, *, client: str, reason: str) -> Watch:
    """Set what the run's watchdog does on a collapse; returns what that would have meant so far."""
    found = runs.get(run)
    found.index.refresh("steps", "events")
    holds = policy(found)
    request: Request | None = None
    if typed == run:
        _require_known(found)
        holds = parse_policy(holds.model_dump() | {"action": action}, source="watch_set")
        request = set_policy(
            found.layout.root,
            holds,
            who=control.through(client),
            via="mcp",
            why=line(reason, control.MAX_WHY),
        )
    tested = backtest(make_run_series(found), holds)
    return Watch(
        run=run,
        state="set" if request else "declined",
        request_id=request.id if request else None,
        action=holds.action,
        grace_steps=holds.grace_steps,
        would_stop_at=tested.stop_step,
        reasons=[finding.line for finding in tested.reasons],
        text=_taken_up(found) if request else NOT_TYPED,
    )


def _require_known(run: Run) -> None:
    """Raises Refusal if defaults would replace a recipe's limits for good."""
    default = WatchdogPolicy()
    if effective_policy(run.layout.root, default) is not default:
        return
    try:
        parse_recipe(run.recipe())
    except UsageError as error:
        raise Refusal(
            "unreadable_recipe",
            f"what the run's recipe says of its watchdog cannot be read: {line(str(error), 300)}",
            "set it with the version of lego that started the run",
        ) from error


def _taken_up(run: Run) -> str:
    if run.is_running():
        return "the watchdog takes it up at the end of the current step"
    return "the run is not going on: the watchdog takes it up when it is resumed"


def run_start(
    folder: Path, recipe: str, overrides: Sequence[str], typed: str | None, *, client: str, reason: str
) -> Control:
    """Start a run by a recipe below `folder`."""
    path = recipe_below(folder, recipe)
    name = load_recipe(path, overrides).run.name
    if typed != name:
        return Control(
            run=line(name, 80),
            state="declined",
            request_id=None,
            last_checkpoint=None,
            text="the name was not typed: nothing was started",
        )
    flags = [part for override in overrides for part in ("--set", override)]
    run = start(
        ["--recipe", str(path), *flags],
        who=control.through(client),
        via="mcp",
        why=line(reason, control.MAX_WHY),
    )
    return Control(
        run=run.name, state="started", request_id=None, last_checkpoint=None, text="run_status shows it"
    )


def name_of_run(recipe: Path) -> str:
    """The name of a run with this recipe, without its time stamp. Raises UsageError."""
    return load_recipe(recipe).run.name


def recipe_below(folder: Path, recipe: str) -> Path:
    """A recipe file below the server's folder. Raises Refusal."""
    try:
        path = (folder / recipe).resolve()
        is_there = path.is_relative_to(folder.resolve()) and path.suffix == ".toml" and path.is_file()
    except (OSError, ValueError, RuntimeError):  # too long, with a zero byte, links in a circle
        path, is_there = folder, False
    if not is_there:
        raise Refusal(
            "no_recipe", "no recipe lies there", "give the path of a .toml file below the server's folder"
        )
    return path


def run_note(runs: Runs, run: str, text: str, *, client: str) -> Control:
    """Anybody may add to the record; it is never shown where it could be obeyed."""
    found = runs.get(run)
    request = control.ask(found, Asked.NOTE, who=control.through(client), via="mcp", why=text)
    return Control(
        run=run,
        state="noted",
        request_id=request.id,
        last_checkpoint=_checkpoint(found),
        text="noted in the audit log",
    )


def _declined(run: Run) -> Control:
    return Control(
        run=run.name, state="declined", request_id=None, last_checkpoint=_checkpoint(run), text=NOT_TYPED
    )


def _checkpoint(run: Run) -> int | None:
    committed = run.layout.committed()
    return int(committed[-1].name) if committed else None
