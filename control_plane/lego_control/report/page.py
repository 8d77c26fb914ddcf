"""Parts as one HTML file that needs nothing else and runs nothing: no script, no link, everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import jinja2
from markupsafe import Markup

from lego_control.report.parts import Figure, Part, Table, table
from lego_control.report.plots import svg

MAX_ROWS = 200
"""How many numbers of a figure are written out; evenly spaced ones if there are more."""


def page(title: str, parts: Sequence[Part]) -> str:
    """The whole file."""
    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    engine = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = engine.get_template("page.html")
    return template.render(title=title, parts=parts, draw_figure=_drawn, numbers=numbers)


def _drawn(figure: Figure) -> Markup:
    return Markup(svg(figure))  # matplotlib escapes text


def numbers(figure: Figure) -> Table:
    """What a figure draws."""
    every = list(range(len(figure.x)))
    step = max(-(-len(every) // MAX_ROWS), 1)
    rows = ((figure.x[i], *(curve[i] for curve in figure.curves.values())) for i in every[::step])
    return table((figure.x_label, *figure.curves), rows)
