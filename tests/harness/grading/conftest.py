"""Gradings for real, in bubblewrap, with a cache folder of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lego_harness.grading.grader import Grader
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.types import Task
from tests.support.repair_task import repair_task
from tests.support.sandboxes import BACKENDS, backend_called, unique_label


@pytest.fixture(scope="session")
def cache_of_gradings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", autouse=True)
def _own_cache(cache_of_gradings: Path) -> Iterator[None]:
    """Of this folder's modules only: tests of others that run behind them have harnesses in the real one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEGO_CACHE", str(cache_of_gradings))
        yield


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> SandboxBackend:
    return backend_called(request.param)


@pytest.fixture
def grader(backend: SandboxBackend) -> Grader:
    return Grader(backend, label=unique_label())


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return repair_task(tmp_path_factory.mktemp("pool") / "tiny")
