"""Which keys of a recipe may change when its run is resumed, and which recipe holds afterwards.

    run.json                                                   what the run was started with; never changed
    started {resumed, changed: {train.learning_rate: 1e-7}}    an event for each resume

Owns which keys those are and how changes add up. Invariants: only settings of the next update may change, so that
data, rollouts and earlier measurements keep their meaning; the recipe that holds is the first one with all changes
since, in order (law 8); any other field of such an event changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from lego_core.config import Recipe
from lego_core.recipe_file import parse_override, parse_recipe
from lego_harness.errors import UsageError

MAY_CHANGE = ("train.learning_rate", "train.learning_rate_left", "train.grad_clip", "train.kl_coef")
FIELD = "changed"
"""Field of a `started` event: key → value."""


def change(recipe: Recipe, overrides: Sequence[str]) -> tuple[Recipe, dict[str, Any]]:
    """`recipe` with `section.key=value` overrides, and what to record of them. Raises UsageError if a key may not
    change or a value is invalid."""
    asked = dict(map(parse_override, overrides))
    if fixed := sorted(asked.keys() - set(MAY_CHANGE)):
        raise UsageError(
            f"--set {', '.join(fixed)}: a resumed run keeps the recipe it was started with, but for "
            f"{', '.join(MAY_CHANGE)}; start a new run for another"
        )
    new = parse_recipe(_with(recipe.model_dump(mode="json"), asked), source="--set")
    return new, {key: _value(new, key) for key in asked}


def changed(recipe: Mapping[str, Any], started: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The stored recipe with the changes that the fields of `started` events record, in order."""
    now = dict(recipe)
    for fields in started:
        found = fields.get(FIELD)
        changes = cast(Mapping[str, Any], found) if isinstance(found, Mapping) else {}
        now = _with(now, {key: changes[key] for key in MAY_CHANGE if type(changes.get(key)) in (int, float)})
    return now


def _with(recipe: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    now = dict(recipe)
    for key, value in changes.items():
        section, _, name = key.partition(".")
        table = now.get(section)
        now[section] = (
            {**cast(dict[str, Any], table), name: value} if isinstance(table, dict) else {name: value}
        )
    return now


def _value(recipe: Recipe, key: str) -> Any:
    section, _, name = key.partition(".")
    return getattr(getattr(recipe, section), name)
