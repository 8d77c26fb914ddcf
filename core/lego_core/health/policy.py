"""Which policy holds for a run: the recipe's, or the one a person has set since.

Owns reading and setting it. Invariants: a policy is registered before it acts, with who and why, in the run's
mailbox, which is the audit log; the newest readable one holds, also after a resume; an unreadable one changes
nothing.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lego_core.config import Limit, WatchdogPolicy
from lego_core.store.mailbox import Asked, Request, post, requests
from lego_harness.errors import UsageError
from lego_harness.invalid import reason

FIELD = "policy"
"""Field of a `watch` request that holds the policy."""


def load_policy(path: Path) -> WatchdogPolicy:
    """A policy file: the keys of the recipe's [watchdog], in TOML. Raises UsageError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"policy {path}: cannot be read as TOML: {error}") from error
    return parse_policy(data.get("watchdog", data), source=f"policy {path}")


def parse_policy(data: Any, source: str) -> WatchdogPolicy:
    """A policy from plain values; raises UsageError naming every bad key."""
    try:
        return WatchdogPolicy.model_validate(data)
    except ValidationError as error:
        raise UsageError(f"{source}: {'; '.join(map(_explain, error.errors()))}") from error


def _explain(error: Any) -> str:
    where = ".".join(map(str, error["loc"])) or "it"
    if error["type"] != "extra_forbidden":
        return f"{where}: {reason(error)}"
    known = Limit.model_fields if error["loc"][0] == "limits" else WatchdogPolicy.model_fields
    return f"unknown key {where!r} (known: {', '.join(known)})"


def set_policy(run_dir: Path, policy: WatchdogPolicy, *, who: str, via: str, why: str) -> Request:
    """Register a policy for a run that exists; its watchdog takes it up at the end of the current step."""
    fields = {FIELD: policy.model_dump(mode="json")}
    return post(run_dir, Asked.WATCH, who=who, via=via, why=why, fields=fields)


def effective_policy(run_dir: Path, registered: WatchdogPolicy) -> WatchdogPolicy:
    """The newest policy somebody has set, else the recipe's `registered` one."""
    for request in reversed(requests(run_dir)):
        if request.asked is Asked.WATCH:
            try:
                return parse_policy(request.fields.get(FIELD), source="request")
            except UsageError:
                continue
    return registered
