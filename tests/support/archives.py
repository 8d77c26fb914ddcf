"""A tiny project as a source archive: two modules whose tests are in the archive."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

FILES = {
    "PKG-INFO": "Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n",
    "shop/__init__.py": "",
    "shop/prices.py": """def total(prices):
    result = 0
    for price in prices:
        result += price
    return result


def cheapest(prices):
    if not prices:
        raise ValueError("no prices")
    return min(prices)


def is_dear(price, limit):
    return price > limit


def unused(a, b):
    return a - b
""",
    "tests/test_prices.py": """import pytest
from shop.prices import cheapest, is_dear, total


@pytest.mark.parametrize(("given", "expected"), [([1, 2], 3), ([5], 5), ([], 0)])
def test_total(given, expected):
    assert total(given) == expected


def test_cheapest():
    assert cheapest([3, 1]) == 1
    with pytest.raises(ValueError):
        cheapest([])


def test_is_dear():
    assert is_dear(3, 2)
    assert not is_dear(2, 2)
    assert not is_dear(1, 2)
""",
    "tests/test_others.py": "def test_nothing():\n    assert 1 + 1 == 2\n",
}


def archive(path: Path, files: Mapping[str, str | None] | None = None, *odd: tarfile.TarInfo) -> Path:
    """The project as NAME-VERSION.tar.gz; `files` replaces some or, with None, leaves them out."""
    top = path.name.removesuffix(".tar.gz")
    with tarfile.open(path, "w:gz") as packed:
        for name, text in {**FILES, **(files or {})}.items():
            if text is not None:
                member = tarfile.TarInfo(f"{top}/{name}")
                member.size = len(data := text.encode())
                packed.addfile(member, io.BytesIO(data))
        for member in odd:
            packed.addfile(member, io.BytesIO(b"x" * member.size))
    return path
