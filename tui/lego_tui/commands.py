"""What can be typed after `:`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lego_tui.help_text import TITLES
from lego_tui.metrics import names
from lego_tui.palette import THEMES
from lego_tui.safe import one_line

if TYPE_CHECKING:
    from lego_tui.app import Watch


def run_command(watch: Watch, line: str) -> str:
    """Do what was typed; returns what to say about it, empty if the effect is visible."""
    word, _, rest = line.strip(" :").partition(" ")
    watch.take_up()
    if word in ("q", "quit"):
        watch.exit()
        return ""
    if word in TITLES and not rest:
        watch.go(word)
        return ""
    command = _COMMANDS.get(word)
    if command is None:
        return f"no command {one_line(word, 40)!r}: {', '.join([*_COMMANDS, 'q'])}, or the name of a screen"
    return command(watch, rest.strip())


def _step(watch: Watch, rest: str) -> str:
    run = watch.state.run
    if run is None or not rest.isdigit() or int(rest) not in run.steps.steps:
        return f"no step {one_line(rest, 20)!r} here"
    watch.state.step = int(rest)
    watch.go("step")
    return ""


def _metric(watch: Watch, rest: str) -> str:
    run = watch.state.run
    found = [name for name in names(run) if rest.lower() in name.lower()] if run and rest else []
    if not found:
        return f"no metric {one_line(rest, 40)!r} in this run"
    watch.state.metric = rest if rest in found else found[0]
    watch.go("run")
    return ""


def _open(watch: Watch, rest: str) -> str:
    return "" if watch.open_rollout(rest) else f"no rollout {one_line(rest, 40)!r} in this run"


def _run(watch: Watch, rest: str) -> str:
    found = [name for name in list(watch.state.fleet.runs) if rest in name]
    if not found:
        return f"no run {one_line(rest, 40)!r} in {watch.state.fleet.root}"
    watch.state.choose_run(found[0])
    watch.go("run")
    return ""


def _theme(watch: Watch, rest: str) -> str:
    if rest not in THEMES:
        return f"themes: {', '.join(THEMES)}"
    watch.theme = rest
    return ""


def _stop(watch: Watch, rest: str) -> str:
    watch.action_stop()
    return ""


_COMMANDS: dict[str, Callable[[Watch, str], str]] = {
    "step": _step,
    "metric": _metric,
    "open": _open,
    "run": _run,
    "theme": _theme,
    "stop": _stop,
}
