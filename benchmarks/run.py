"""Every figure, one after the other, and their table in `README.md`.

    python -m benchmarks.run            all of them, less than ten minutes on a machine with nothing else to do
    python -m benchmarks.run --check    exit 1 where an aim is missed

Owns the order and the table. Measures nothing itself.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks import proxy_calls, proxy_conversation, proxy_memory, tables
from benchmarks.contestants import ALL

FIGURES = (
    ("Calls", proxy_calls),
    ("A long conversation", proxy_conversation),
    ("Open sessions", proxy_memory),
)


def main() -> int:
    """0 unless an aim is missed and that was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    parts, aims = [tables.machine(), _programs()], []
    for title, figure in FIGURES:
        found = figure.measure()
        parts.append(f"### {title}\n\n{figure.report(found)}")
        aims += figure.verdicts(found)
    parts.append(tables.aims(aims))
    tables.write("\n\n".join(parts), name="results")
    sys.stdout.write("\n\n".join(parts) + "\n")
    return int(options.check and not all(ok for _, ok in aims))


def _programs() -> str:
    lines = ["| program | keeps of a call |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {one.name} | {one.keeps} |" for one in ALL)])


if __name__ == "__main__":
    sys.exit(main())
