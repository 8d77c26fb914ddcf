"""The option for a harness that works with a tiny policy. A recipe may name any harness; this module says which fit."""

from __future__ import annotations

from typing import Any

import click

from lego_core.tiny.script import SCRIPTS


class _TinyHarness(click.Choice[str]):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from lego_harness.registry import harness_names

        if value in self.choices or value not in harness_names():
            return super().convert(value, param, ctx)
        return self.fail(
            f"there is no tiny policy for {value}, only for {', '.join(self.choices)}; train a checkpoint of "
            f'yours in it by a recipe with model.path and harness.name = "{value}": lego train RECIPE.toml',
            param,
            ctx,
        )


TINY_HARNESS = _TinyHarness(tuple(SCRIPTS))
