"""The run directory: the source of truth about a run, append-only and readable while it is written (law 8).

`layout.py` says where everything is, `writer.py` writes it, `reader.py` reads it. Free of torch and ray.
"""

from lego_core.store.layout import Event, IndexEntry, RunLayout, RunStatus
from lego_core.store.reader import RunReader, newest_run
from lego_core.store.writer import RunWriter

__all__ = ["Event", "IndexEntry", "RunLayout", "RunReader", "RunStatus", "RunWriter", "newest_run"]
