"""The clock of this machine and that of the file system agree: a run's records sort by it."""

from __future__ import annotations

import time

from lego_control.validate.base import Broken, Ground

MAX_SKEW_S = 5.0


def run(ground: Ground) -> str:
    probe = ground.scratch / "clock"
    before = time.time()
    probe.write_bytes(b"")
    written, after = probe.stat().st_mtime, time.time()
    skew = max(before - written, written - after, 0.0)
    if skew > MAX_SKEW_S or before < 1.7e9:
        raise Broken(
            f"the clock says {time.strftime('%Y-%m-%d %H:%M', time.gmtime(before))} UTC, a file written now is "
            f"{skew:.0f} s off",
            "synchronise the clocks of this machine and of its file server",
        )
    return f"{skew:.1f} s apart"
