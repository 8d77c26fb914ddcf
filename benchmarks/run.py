"""Every figure, one after the other, and their table in `README.md`.

    python -m benchmarks.run            all of them, less than ten minutes on a machine with nothing else to do
    python -m benchmarks.run --check    exit 1 where an aim is missed

Owns the order and the table. Measures nothing itself.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from pathlib import Path

from benchmarks import proxy_calls, proxy_conversation, proxy_memory
from benchmarks.contestants import ALL

README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
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
    parts, aims = [_machine(), _programs()], []
    for title, figure in FIGURES:
        found = figure.measure()
        parts.append(f"### {title}\n\n{figure.report(found)}")
        aims += figure.verdicts(found)
    parts.append(
        "### Aims\n\n" + "\n".join(f"- {'reached' if ok else 'MISSED'}: {what}" for what, ok in aims)
    )
    _write("\n\n".join(parts))
    sys.stdout.write("\n\n".join(parts) + "\n")
    return int(options.check and not all(ok for _, ok in aims))


def _machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if "model name" in line
        ),
        platform.machine(),
    )
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores ({model}), Python {platform.python_version()}, load {load:.1f} at the start."
    )


def _programs() -> str:
    lines = ["| program | keeps of a call |", "| --- | --- |"]
    return "\n".join([*lines, *(f"| {one.name} | {one.keeps} |" for one in ALL)])


def _write(results: str) -> None:
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    README.write_text(f"{before}{BEGIN}\n\n{results}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
