"""Which checks there are, in which order, and what each needs."""

from __future__ import annotations

from lego_control.validate.base import Check
from lego_control.validate.checks import (
    clock,
    detectors,
    disk,
    egress,
    git_history,
    harness,
    leftovers,
    limits,
    memory,
    nop,
    oracle,
    paths,
    pool,
    ports,
    ranks,
    redteam,
    sandbox,
    store,
    template,
    tokenizer,
)
from lego_control.validate.checks.numerics import proof


def plan() -> tuple[Check, ...]:
    """Cheap ones first."""
    return (
        Check(name="limits", run=limits.run),
        Check(name="paths", run=paths.run),
        Check(name="clock", run=clock.run),
        Check(name="ports", run=ports.run),
        Check(name="leftovers", run=leftovers.run),
        Check(name="store", run=store.run, needs=("paths",)),
        Check(name="disk", run=disk.run, needs=("paths",)),
        Check(name="detectors", run=detectors.run),
        Check(name="pool", run=pool.run, needs=("paths",)),
        Check(name="git_history", run=git_history.run, needs=("paths", "pool")),
        Check(name="sandbox", run=sandbox.run),
        Check(name="egress", run=egress.run, needs=("sandbox",)),
        Check(name="nop", run=nop.run, needs=("paths", "pool", "sandbox")),
        Check(name="oracle", run=oracle.run, needs=("paths", "pool", "sandbox")),
        Check(name="redteam", run=redteam.run, needs=("paths", "pool", "sandbox", "nop", "oracle")),
        Check(name="harness", run=harness.run, needs=("sandbox",)),
        Check(name="engine", run=proof("engine"), needs=("paths", "harness")),
        Check(name="tokenizer", run=tokenizer.run, needs=("paths",)),
        Check(name="template", run=template.run, needs=("paths", "tokenizer")),
        Check(name="memory", run=memory.run, needs=("paths",)),
        Check(name="ranks", run=ranks.run, needs=("paths",)),
        Check(name="weight_sync", run=proof("weight_sync"), needs=("engine",)),
        Check(name="agreement", run=proof("agreement"), needs=("engine",)),
        Check(name="routes", run=proof("routes"), needs=("engine", "agreement")),
        Check(name="checkpoint", run=proof("checkpoint"), needs=("paths",)),
    )
