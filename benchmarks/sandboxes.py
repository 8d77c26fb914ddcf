"""What is done so that sandboxes are ready early, each thing against doing without it, in one run.

    python -m benchmarks.sandboxes            all of it, less than ten minutes on a machine with nothing else to do
    python -m benchmarks.sandboxes --check    exit 1 where an aim is missed

Needs a Docker engine of this machine, root, the package indexes and, for the whole image, a registry's program. Owns
the order and the tables in `README.md`. What cannot be measured is told with the reason, and no aim of it is reached.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from benchmarks import (
    sandbox_grading,
    sandbox_image,
    sandbox_lazy,
    sandbox_runtime,
    sandbox_setup,
    tables,
)
from benchmarks.containers import HEADER, Compared
from lego_harness.errors import LegoError

PAIRED: tuple[Callable[[], Compared], ...] = (
    sandbox_image.measure,
    sandbox_runtime.measure,
    sandbox_grading.measure,
)
FIGURES: tuple[tuple[str, Any], ...] = (
    ("Set-up", sandbox_setup),
    ("Mounted lazily, and brought whole", sandbox_lazy),
)
_FAULTS = (LegoError, RuntimeError, OSError)


def main() -> int:
    """0 unless an aim is missed and that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    parts, aims = [tables.machine()], list[tuple[str, bool]]()
    for title, figure in FIGURES:
        text, verdicts = _figure(title, figure)
        parts.append(text)
        aims += verdicts
    parts += [_pairs(), tables.aims(aims)]
    results = "\n\n".join(parts)
    tables.write(results, name="sandboxes")
    sys.stdout.write(results + "\n")
    return int(options.check and not all(ok for _, ok in aims))


def _figure(title: str, figure: Any) -> tuple[str, list[tuple[str, bool]]]:
    try:
        found = figure.measure()
    except _FAULTS as error:
        return f"### {title}\n\nNot measured: {error}", [(f"{title}: not measured", False)]
    return f"### {title}\n\n{figure.report(found)}", figure.verdicts(found)


def _pairs() -> str:
    rows, left_out = list[str](), list[str]()
    for measure in PAIRED:
        try:
            rows.append(measure().row())
        except _FAULTS as error:
            left_out.append(f"Not measured, {measure.__module__}: {error}")
    return "\n\n".join(["### With and without", "\n".join([HEADER, *rows]), *left_out])


if __name__ == "__main__":
    sys.exit(main())
