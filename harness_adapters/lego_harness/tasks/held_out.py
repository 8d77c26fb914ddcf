"""Which tasks of a set are held out: by a hash of a name, so that a task is on the same side in every import.

Owns nothing else. Invariant: what is held out at one share is also held out at every larger one.
"""

from __future__ import annotations

import hashlib


def is_held_out(name: str, share: float) -> bool:
    """True for about `share`, 0 to 1, of all names."""
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64
