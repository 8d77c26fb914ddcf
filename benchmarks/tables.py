"""Where the tables of `README.md` stand: between two marks, written anew by whoever measured them."""

from __future__ import annotations

import os
import platform
from pathlib import Path

README = Path(__file__).parent / "README.md"


def machine() -> str:
    """What it was measured on."""
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


def aims(verdicts: list[tuple[str, bool]]) -> str:
    """As Markdown."""
    lines = [f"- {'reached' if ok else 'MISSED'}: {what}" for what, ok in verdicts]
    return "### Aims\n\n" + "\n".join(lines)


def write(results: str, *, name: str) -> None:
    """Replace what stands between `<!-- NAME -->` and `<!-- end of NAME -->`."""
    before, begin, rest = README.read_text(encoding="utf-8").partition(f"<!-- {name} -->")
    _, end, after = rest.partition(f"<!-- end of {name} -->")
    README.write_text(f"{before}{begin}\n\n{results}\n\n{end}{after}", encoding="utf-8")
