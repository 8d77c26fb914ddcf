"""One engine to be killed, for all tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.own_engine import OwnEngine, own_engine


@pytest.fixture(scope="session")
def engine() -> Iterator[OwnEngine]:
    with own_engine() as engine:
        yield engine


@pytest.fixture(autouse=True)
def _use_it(engine: OwnEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert os.environ.get("DOCKER_HOST") != engine.host
    monkeypatch.setenv("DOCKER_HOST", engine.host)
