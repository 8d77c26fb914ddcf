"""Figures as SVG, by matplotlib, in the colours of Okabe and Ito and with a different dash for each curve.

matplotlib is imported when something is drawn, because that takes a second. Deterministic, and no text is read as a
formula.
"""

from __future__ import annotations

import io
import math
import warnings
from typing import Any

from lego_control.report.parts import Figure

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#000000")
DASHES = ("-", "--", "-.", ":")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lego",
    "text.parse_math": False,
    "font.size": 9,
}


def svg(figure: Figure) -> str:
    """One `<svg>` element."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import MaxNLocator

    plain: Any = mpl
    with plain.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # the viewer of the page has the fonts
        canvas: Any = Canvas(figsize=(9.6, 3.2), layout="tight")
        FigureCanvasSVG(canvas)
        axes: Any = canvas.add_subplot()
        _draw(axes, figure)
        if figure.kind != "bars":
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(figure.x_label)
        axes.set_ylabel(_y_label(figure))
        axes.spines[["top", "right"]].set_visible(False)
        if len(figure.curves) > 1:
            axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
        out = io.StringIO()
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _y_label(figure: Figure) -> str:
    """A single curve is named at its axis and needs no legend."""
    if len(figure.curves) != 1:
        return figure.y_label
    (name,) = figure.curves
    return name if figure.y_label in name else f"{name} ({figure.y_label})"


def _draw(axes: Any, figure: Figure) -> None:
    names, count = list(figure.curves), len(figure.curves)
    if figure.kind == "stack":
        values = [[v if math.isfinite(v) else 0.0 for v in figure.curves[n]] for n in names]
        axes.stackplot(figure.x, values, labels=names, colors=COLOURS, step="mid")
        return
    for place, name in enumerate(names):
        colour, values = COLOURS[place % len(COLOURS)], figure.curves[name]
        if figure.kind == "bars":
            width = 0.8 / count
            at = [i + (place - (count - 1) / 2) * width for i in range(len(figure.x))]
            axes.bar(at, [v if math.isfinite(v) else 0 for v in values], width, color=colour, label=name)
            axes.set_xticks(range(len(figure.x)), [str(x) for x in figure.x])
        else:
            finite = [(x, v) for x, v in zip(figure.x, values, strict=True) if math.isfinite(v)]
            xs, ys = zip(*finite, strict=True) if finite else ((), ())
            mark = "o" if len(finite) < 3 else None
            axes.plot(xs, ys, DASHES[place % 4], color=colour, label=name, marker=mark, markersize=3)
