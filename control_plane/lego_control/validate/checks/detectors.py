"""On a sample of the labelled corpus, the watchdog's detectors do what is published about them."""

from __future__ import annotations

from lego_control.validate.base import Broken, Ground
from lego_core.health.backtest import backtest
from lego_core.health.corpus_runs import collapses, healthy


def run(ground: Ground) -> str:
    size = {"smoke": 6, "parity": 100, "full": 100}[ground.profile]
    lost, fine = collapses()[:size], healthy()[:size]
    missed = [r.name for r in lost if backtest(r.draw(0)).stop_step is None]
    alarms = [r.name for r in fine if backtest(r.draw(0)).stop_step is not None]
    if missed or alarms:
        raise Broken(
            f"missed {missed or 'none'} of {len(lost)} collapses, stopped {alarms or 'none'} of {len(fine)} healthy runs",
            "reinstall: the detectors are not those that were published",
        )
    return f"{len(lost)} collapses caught, {len(fine)} healthy runs let go on"
