"""Reads a recipe: a TOML file, overrides on top of it, and one line about everything that is wrong.

Owns the way from text to a `Recipe`. Invariant: whatever is wrong is a UsageError that names the key, what was got and
what was expected. Owns no key: those are in `config.py`.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lego_core.config import Recipe, Section
from lego_harness.adapters.options import CommandConfig
from lego_harness.errors import UsageError
from lego_harness.invalid import reason


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a TOML recipe and apply `section.key=value` overrides; raises UsageError."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"recipe {path}: cannot be read as TOML: {error}") from error
    for override in overrides:
        _apply_override(data, override)
    return parse_recipe(data, source=str(path))


def parse_recipe(data: Mapping[str, Any], source: str = "recipe") -> Recipe:
    """Validate a recipe given as nested tables; raises UsageError naming every bad key."""
    try:
        return Recipe.model_validate(data)
    except ValidationError as error:
        lines = [_explain(e) for e in error.errors()]
        raise UsageError(f"{source}: " + "; ".join(lines)) from error


def recipe_changes(old: Recipe, new: Recipe) -> list[str]:
    """`section.key: old → new` for every key that differs."""
    before, after = old.model_dump(mode="json"), new.model_dump(mode="json")
    return [
        f"{section}.{key}: {value!r} → {after[section][key]!r}"
        for section, keys in before.items()
        for key, value in keys.items()
        if value != after[section][key]
    ]


def parse_override(override: str) -> tuple[str, Any]:
    """`section.key` and value of `section.key=value`. Raises UsageError."""
    key, equals, raw = override.partition("=")
    parts = key.strip().split(".")
    if not equals or len(parts) != 2 or not all(parts):
        raise UsageError(f"--set got {override!r}, expected section.key=value, as in train.learning_rate=0")
    return key.strip(), toml_value(raw.strip())


def _apply_override(data: dict[str, Any], override: str) -> None:
    key, value = parse_override(override)
    name, _, key = key.partition(".")
    section = data.setdefault(name, {})
    if not isinstance(section, dict):
        raise UsageError(f"--set {override!r}: [{name}] is not a section of the recipe")
    section[key] = value


def toml_value(raw: str) -> Any:
    """A TOML value if it parses as one, else the text itself, so that names need no quotes."""
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        return raw


def _explain(error: Any) -> str:
    where = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return f"unknown key {where!r}{_suggestion(error['loc'])}"
    said = reason(error)
    said = said[:1].lower() + said[1:]  # the rest may quote a pattern
    return f"{where}: {said}, got {error['input']!r}"


def _suggestion(loc: Sequence[Any]) -> str:
    keys = list(Recipe.model_fields)
    if len(loc) > 1 and isinstance(section := getattr(Recipe(), str(loc[0]), None), Section):
        keys = list(type(section).model_fields)
    if loc[:-1] == ("harness", "command"):
        keys = list(CommandConfig.model_fields)
    close = difflib.get_close_matches(str(loc[-1]), keys, n=1)
    return f" (did you mean {close[0]!r}?)" if close else f" (known: {', '.join(keys)})"
