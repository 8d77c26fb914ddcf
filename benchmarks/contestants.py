"""Who is measured: how each program starts, and what it does and does not do.

Programs of others come from PyPI, pinned, into environments of their own in the cache, made when they
are first needed. Each runs as its own documentation starts it, with one worker.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.checkpoint import cache, checkpoint
from benchmarks.processes import module, program, wait_until_served

HERE = Path(__file__).parent
ALONE = {
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "ERROR",
}
"""LiteLLM without keys, nothing fetched, nothing told."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Contestant:
    """One program under test."""

    name: str
    keeps: str
    """What it records of a call."""
    argv: Callable[[str], list[str]]
    """Its command line, given the URL of the upstream."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    @contextmanager
    def running(self, upstream: str) -> Generator[tuple[psutil.Process, dict[str, Any]]]:
        """Its process, and where it serves."""
        log = cache() / f"{self.name.split(',')[0]}.log"
        with program(self.argv(upstream), env=self.env, log=log) as (process, place):
            if alive := place.pop("alive", None):
                wait_until_served(alive, process)
            yield process, place


def _theirs(name: str, requirements: str, *arguments: str) -> Callable[[str], list[str]]:
    def argv(upstream: str) -> list[str]:
        return [environment(requirements), str(HERE / f"{name}.py"), upstream, *arguments]

    return argv


def environment(requirements: str, *, on_ours: bool = False, python: str = sys.executable) -> str:
    """The Python of an environment with the pinned packages, made by `python`, with `on_ours` on top of those of ours."""
    pins = HERE / "requirements" / f"{requirements}.txt"
    folder = cache() / f"{requirements}-{hashlib.sha256(pins.read_bytes()).hexdigest()[:12]}"
    inside, whole = folder / "bin" / "python", folder / "whole"
    if not whole.exists():
        subprocess.run([python, "-m", "venv", "--clear", folder], check=True)
        install = ["pip", "install", "--quiet", "--no-deps", "--requirement", pins]
        if on_ours:
            (site,) = (folder / "lib").glob("python*/site-packages")
            (site / "ours.pth").write_text(sysconfig.get_paths()["purelib"])
        subprocess.run([inside, "-m", *install], check=True)
        whole.touch()
    return str(inside)


LEGO = Contestant(
    name="Lego-RL's proxy",
    keeps="ids sampled and sent, log-probabilities, versions, routes, forks with their cause",
    argv=lambda _: module("benchmarks.serve_lego", "short"),
)
LEGO_HTTP = Contestant(
    name="Lego-RL's proxy, engine over HTTP",
    keeps="the same",
    argv=lambda upstream: module("benchmarks.serve_lego", "short", "--upstream", upstream),
)
VERIFIERS = Contestant(
    name="verifiers 0.4.0, interception server with its train client",
    keeps="ids sampled and sent, log-probabilities, routes where its engine sends them",
    argv=lambda upstream: _theirs("serve_verifiers", "verifiers", str(checkpoint()))(upstream),
)
LITELLM = Contestant(
    name="LiteLLM 1.108.7, proxy",
    keeps="nothing: text is passed on",
    argv=_theirs("serve_litellm", "agentlightning"),
    env=ALONE,
)
AGENT_LIGHTNING = Contestant(
    name="agentlightning 0.3.0, LLM proxy with store in memory",
    keeps="spans with the ids that the engine reports; renders nothing, sends text",
    argv=_theirs("serve_agentlightning", "agentlightning"),
    env=ALONE,
)
ALL = (LEGO, LEGO_HTTP, VERIFIERS, LITELLM, AGENT_LIGHTNING)
