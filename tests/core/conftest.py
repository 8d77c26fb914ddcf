"""One Ray per test module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.own_ray import own_ray

# A loaded machine is no failure of a law.
settings.register_profile("core", deadline=None)
settings.load_profile("core")


@pytest.fixture(scope="module")
def ray_session() -> Iterator[None]:
    with own_ray():
        yield
