"""Every test of this folder that asks for `backend` runs on both."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lego_harness.sandbox.base import Phase, SandboxBackend, SandboxSpec
from tests.support.sandboxes import BACKENDS, backend_called, unique_label


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> SandboxBackend:
    return backend_called(request.param)


@pytest.fixture
def label() -> str:
    return unique_label()


@pytest.fixture
def spec(label: str) -> Callable[..., SandboxSpec]:
    """Specs of the set-up phase with one file, unless told otherwise."""

    def make(**changed: object) -> SandboxSpec:
        base: dict[str, object] = {"phase": Phase.SETUP, "files": {"a.txt": b"hello\n"}, "label": label}
        return SandboxSpec(**{**base, **changed})  # type: ignore[arg-type]

    return make
