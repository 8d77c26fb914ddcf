"""Secrets that a trajectory may contain, recognised by pattern and removed before anything leaves the run.

Owns the patterns. Invariant: a match is replaced by its kind, in texts and in the names of fields alike, at any
depth; time is linear in the length of the text, whoever wrote it (a stretch that must be followed by something
is bounded). Patterns cannot know every secret: one without a recognisable form is not found.
"""

from __future__ import annotations

import re
from typing import Any, cast

PATTERNS = {
    "private-key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    "anthropic-key": r"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "openai-key": r"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{20,}",
    "github-token": r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{40,})",
    "gitlab-token": r"\bglpat-[A-Za-z0-9_-]{20,}",
    "huggingface-token": r"\bhf_[A-Za-z0-9]{30,}",
    "aws-key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "google-key": r"\bAIza[A-Za-z0-9_-]{35}",
    "slack-token": r"\bxox[abposr]-[A-Za-z0-9-]{10,}",
    "npm-token": r"\bnpm_[A-Za-z0-9]{36}",
    "pypi-token": r"\bpypi-[A-Za-z0-9_-]{50,}",
    "stripe-key": r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{16,}",
    "json-web-token": r"\beyJ[A-Za-z0-9_-]{8,1000}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}",
    "bearer": r"(?i:\bbearer)\s+[A-Za-z0-9._~+/-]{20,}=*",
    "url-password": r"(?<=://)[^/\s:@]{1,80}:[^/\s:@]{1,200}(?=@)",
    "assigned": r"(?i:\b(?:api[_-]?key|secret|token|passw(?:or)?d|access[_-]?key)[\"']?\s*[:=]\s*[\"']?)[A-Za-z0-9+/_.~-]{16,}",
}
_ANY = re.compile("|".join(f"(?P<{name.replace('-', '_')}>{pattern})" for name, pattern in PATTERNS.items()))


def redact_text(text: str) -> str:
    """`text` with each secret as `[redacted: kind]`."""
    return _ANY.sub(lambda hit: f"[redacted: {(hit.lastgroup or 'secret').replace('_', '-')}]", text)


def redact(value: Any) -> Any:
    """The same for JSON values, at any depth."""
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict):
        return {redact_text(str(key)): redact(item) for key, item in cast(dict[Any, Any], value).items()}
    if isinstance(value, list | tuple):
        return [redact(item) for item in cast(list[Any], value)]
    return value
