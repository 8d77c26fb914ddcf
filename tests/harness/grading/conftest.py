"""Gradings for real, in bubblewrap, with a cache folder of the session's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lego_harness.grading.grader import Grader
from lego_harness.sandbox.base import SandboxBackend
from lego_harness.types import Task
from tests.support.repair_task import repair_task
from tests.support.sandboxes import BACKENDS, backend_called, unique_label


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("LEGO_CACHE", str(folder))
        yield folder


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> SandboxBackend:
    return backend_called(request.param)


@pytest.fixture
def grader(backend: SandboxBackend) -> Grader:
    return Grader(backend, label=unique_label())


@pytest.fixture(scope="session")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return repair_task(tmp_path_factory.mktemp("pool") / "tiny")
