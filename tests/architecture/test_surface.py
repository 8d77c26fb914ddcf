"""What can be set, what can be imported and how long files are: changed on purpose or not at all."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lego_core.config import Recipe

ROOT = Path(__file__).parents[2]
SURFACE = Path(__file__).with_name("recipe_surface.txt")
LONG_FILES: dict[str, str] = {}
"""Path of a file over 500 lines → why it is one. This list only shrinks."""
PUBLIC: dict[str, list[str]] = {
    "lego_core.store": [
        "Event",
        "IndexEntry",
        "RunLayout",
        "RunReader",
        "RunStatus",
        "RunWriter",
        "newest_run",
    ],
}
"""Package → what it re-exports; every other package re-exports nothing."""


def recipe_surface() -> Iterator[str]:
    """One line per key of a recipe: default, type and bounds."""
    schema = Recipe.model_json_schema()
    for section in schema["properties"]:
        (kind,) = re.findall(r"#/\$defs/(\w+)", json.dumps(schema["properties"][section]))
        for key, entry in schema["$defs"][kind]["properties"].items():
            shown = {name: entry[name] for name in sorted(entry) if name not in ("title", "description")}
            yield f"{section}.{key}: {json.dumps(shown)}"


def test_a_new_knob_is_added_deliberately() -> None:
    """Where the change is meant, bring recipe_surface.txt up to date by hand, in the same commit."""
    assert list(recipe_surface()) == SURFACE.read_text(encoding="utf-8").splitlines()


def python_files() -> list[Path]:
    folders = ("core", "harness_adapters", "control_plane", "tui", "tests", "benchmarks", "scripts")
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def test_files_stay_short_enough_to_read() -> None:
    long = {
        str(path.relative_to(ROOT))
        for path in python_files()
        if len(path.read_text(encoding="utf-8").splitlines()) > 500
    }
    assert long == set(LONG_FILES)


@pytest.mark.parametrize(
    "init",
    [
        path
        for path in python_files()
        if path.name == "__init__.py" and path.relative_to(ROOT).parts[0] not in ("tests", "benchmarks")
    ],
    ids=lambda path: path.parent.name,
)
def test_packages_export_what_was_decided(init: Path) -> None:
    relative = init.parent.relative_to(ROOT).parts[1:]
    name = ".".join(relative)
    module = importlib.import_module(name)
    assert getattr(module, "__all__", []) == PUBLIC.get(name, [])
    assert all(hasattr(module, public) for public in PUBLIC.get(name, []))
