"""The commands of a pipeline: `lego check`, `lego gate`, `lego wait`, and `lego diagnose` for people.

Owns options; the modules next to it do the work, imported when a command runs.
"""

from __future__ import annotations

from pathlib import Path

import click

from lego_control.ci.publish import Outputs, outputs
from lego_control.finite import finite
from lego_control.validate.command import validate

RUN = click.Path(path_type=Path)
POLICY = click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML with the keys of [watchdog].  [default: the run's own]",
)


@click.command()
@click.argument("run", required=False, type=RUN)
@click.option("--json", "for_programs", is_flag=True, help="One JSON object instead of text.")
@click.option(
    "--step", type=click.IntRange(min=1), help="Diagnose the run as it was at the end of this step."
)
@click.option(
    "--assist",
    metavar="anthropic|openai:URL",
    help="Add a language model's opinion. It sees the evidence only and decides nothing.",
)
@click.option("--assist-model", metavar="NAME", help="Model that gives the opinion.")
@click.option(
    "--assist-tokens",
    type=click.IntRange(256, 100_000),
    default=20_000,
    show_default=True,
    help="Budget of the opinion, in tokens read and written.",
)
def diagnose(
    run: Path | None,
    for_programs: bool,
    step: int | None,
    assist: str | None,
    assist_model: str | None,
    assist_tokens: int,
) -> int:
    """Say whether a RUN is learning, drifting or has collapsed, and why. Default: the newest run in ./runs."""
    from lego_control.diagnosis import tell

    return tell(
        run,
        for_programs=for_programs,
        step=step,
        assist=assist,
        assist_model=assist_model,
        assist_tokens=assist_tokens,
    )


@click.command()
@click.argument("runs", nargs=-1, required=True, type=RUN)
@POLICY
@click.option(
    "--backtest", is_flag=True, help="Replay each run and say when the policy would have stopped it."
)
@outputs
def check(
    runs: tuple[Path, ...],
    policy: Path | None,
    backtest: bool,
    junit: Path | None,
    json_file: str | None,
    summary: str | None,
) -> int:
    """Check RUNS against a policy. Exit 0 if kept, 1 if a limit is broken, 3 with too little data, 4 if collapsed."""
    from lego_control.ci.check import check_runs

    wanted = Outputs(junit=junit, json=json_file, summary=summary)
    return check_runs(runs, policy, is_backtest=backtest, wanted=wanted)


@click.command()
@click.option("--candidate", type=RUN, required=True, metavar="RUN")
@click.option("--baseline", type=RUN, required=True, metavar="RUN")
@click.option(
    "--metric",
    type=click.Choice(["solve_rate", "reward", "tokens"]),
    default="solve_rate",
    show_default=True,
    help="What to compare, task by task, in the last held-out evaluation.",
)
@click.option(
    "--min-effect",
    type=float,
    default=0.0,
    show_default=True,
    callback=finite,
    help="Least difference, candidate minus baseline.",
)
@click.option(
    "--confidence", type=click.FloatRange(0.5, 0.999), default=0.95, show_default=True, callback=finite
)
@outputs
def gate(
    candidate: Path,
    baseline: Path,
    metric: str,
    min_effect: float,
    confidence: float,
    junit: Path | None,
    json_file: str | None,
    summary: str | None,
) -> int:
    """Compare two runs task by task. Exit 0 if the candidate is better, 1 if not, 3 if the data cannot tell."""
    from lego_control.ci.check import gate_runs

    return gate_runs(
        candidate,
        baseline,
        metric=metric,
        min_effect=min_effect,
        confidence=confidence,
        wanted=Outputs(junit=junit, json=json_file, summary=summary),
    )


@click.command()
@click.argument("run", type=RUN)
@click.option("--timeout", metavar="DURATION", help="When to give up, as in 90s, 20m, 6h.  [default: never]")
def wait(run: Path, timeout: str | None) -> int:
    """Wait until a RUN has ended. Exit 0 if finished, 3 if failed, interrupted or timed out, 4 if collapsed or stopped."""
    from lego_control.ci.waiting import wait_for

    return wait_for(run, timeout)


COMMANDS = [diagnose, check, gate, wait, validate]
