"""What the detectors do on the labelled corpus: the rates that core/lego_core/health/README.md publishes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from lego_core.health.backtest import backtest
from lego_core.health.corpus import Replica
from lego_core.health.corpus_runs import collapses, healthy
from lego_core.health.drop import onset

COLLAPSES, HEALTHY = collapses(), healthy()
INVARIANT_STEPS, DROP_STEPS = 10, 18
"""A collapse is caught within so many steps of its onset, by an invariant or by the drop rule."""


def test_the_corpus_holds_enough_published_collapses_and_healthy_runs() -> None:
    published = {r.name for r in COLLAPSES if r.source != "simulated"}
    assert len(published) >= 12
    assert len(HEALTHY) >= 40
    names = Counter(r.name for r in (*COLLAPSES, *HEALTHY))
    assert names.most_common(1)[0][1] == 1


@pytest.mark.parametrize("replica", COLLAPSES, ids=lambda r: r.name)
def test_a_collapse_is_caught_in_time(replica: Replica) -> None:
    assert_caught(replica, seed=0)


@pytest.mark.parametrize("replica", HEALTHY, ids=lambda r: r.name)
def test_a_healthy_run_goes_on(replica: Replica) -> None:
    assert backtest(replica.draw(0)).stop_step is None


@pytest.mark.soak
@pytest.mark.parametrize("replica", COLLAPSES, ids=lambda r: r.name)
def test_a_collapse_is_caught_in_time_on_fifty_seeds(replica: Replica) -> None:
    for seed in range(50):
        assert_caught(replica, seed)


@pytest.mark.soak
@pytest.mark.parametrize("replica", HEALTHY, ids=lambda r: r.name)
def test_no_healthy_run_is_stopped_on_fifty_seeds(replica: Replica) -> None:
    assert [seed for seed in range(50) if backtest(replica.draw(seed)).stop_step] == []


def assert_caught(replica: Replica, seed: int) -> None:
    series = replica.draw(seed)
    result = backtest(series)
    begun = onset(series.values("reward"))
    assert result.stop_step is not None, f"{replica.name}, seed {seed}: never stopped"
    if begun is None:
        return
    is_drop = any(f.layer == "drop" for f in result.reasons)
    delay = result.stop_step - int(series.steps[begun])
    assert delay <= (DROP_STEPS if is_drop else INVARIANT_STEPS), f"{replica.name}, seed {seed}"


def test_a_replica_is_a_function_of_its_seed() -> None:
    first, again = COLLAPSES[0].draw(3), COLLAPSES[0].draw(3)
    assert np.array_equal(first.values("reward"), again.values("reward"))
    assert not np.array_equal(first.values("reward"), COLLAPSES[0].draw(4).values("reward"))
