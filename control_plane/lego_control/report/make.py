"""The parts of a report, in order, and which of them are wanted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, cast

from lego_control.report import curves, examples, rollouts
from lego_control.report.parts import Part, table
from lego_control.report.source import Source
from lego_harness.errors import UsageError


def settings(source: Source) -> Part:
    """Table 10."""
    rows = [
        (f"{section}.{key}", value)
        for section, keys in source.feed.recipe.items()
        if isinstance(keys, dict)
        for key, value in cast(dict[str, Any], keys).items()
    ]
    return Part(
        id="table10",
        title="Hyperparameters (Table 10)",
        tables=(table(("key", "value"), rows[:300]),) if rows else (),
        missing="" if rows else "a run.json that can be read",
    )


_ABSENT = {
    "table5": ("Sandbox optimisations (Table 5)", "paired set-ups with and without each; no run records them"),
    "fig6": ("Task selection (Figure 6)", "several runs over different pools: lego compare A B lays them over each other"),
    "fig10": ("Image delivery (Figure 10)", "lazy and full pulls of the same images; no run records them"),
}  # fmt: skip


def _absent(name: str) -> Callable[[Source], Part]:
    title, missing = _ABSENT[name]
    return lambda source: Part(id=name, title=title, missing=missing)


PARTS: dict[str, Callable[[Source], Part]] = {
    "summary": curves.summary,
    "fig3": curves.training,
    "table3": curves.alignment,
    "fig4": rollouts.termination,
    "table4": rollouts.wall_clock,
    "fig5": rollouts.in_batch,
    "table5": _absent("table5"),
    "fig6": _absent("fig6"),
    "table6": rollouts.integrity,
    "table7": curves.replay,
    "table8": curves.evidence,
    "fig8": rollouts.tool_use,
    "fig9": curves.schedule,
    "table9": rollouts.behaviours,
    "fig10": _absent("fig10"),
    "fig11": rollouts.reasoning,
    "table10": settings,
    "review": rollouts.labelled,
    "examples": examples.examples,
}


def make(source: Source, only: Collection[str] = ()) -> list[Part]:
    """The wanted parts, all of them if `only` is empty. Raises UsageError for an unknown one."""
    unknown = sorted(set(only) - PARTS.keys())
    if unknown:
        raise UsageError(f"--only: no part {unknown[0]!r}, expected some of {', '.join(PARTS)}")
    return [part(source) for name, part in PARTS.items() if not only or name in only]
