"""What the detectors of `lego_core.health` say about a run: one word, or all of it."""

from __future__ import annotations

import dataclasses
import math

from lego_control.runs import Run, Runs
from lego_control.schemas import Diagnosis, Evidence, Hypothesis, Signal

NEXT = ["metrics_query on the metrics named above", "trajectories_search of the steps since then, worst first"]


def verdict(run: Run) -> str:
    """healthy, watch, collapsed or unknown; index fresh."""
    return "unknown"
