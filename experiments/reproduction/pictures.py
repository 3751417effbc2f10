"""How all pictures look: one style, colours that everybody tells apart, readable at half width."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from privem.files import write_whole
from privem.report.shapes import COLOURS

from .claims import Rows

BLACK, GREY = "#000000", "#7a7a7a"
# A method has one look in all pictures: colour, marker and dashes, so that colour is not needed.
LOOKS: dict[str, tuple[str, str, Any]] = {
    "exact EM": (BLACK, "", (0, (1, 1.2))),
    "privem": (COLOURS[1], "o", "-"),
    "as printed": (COLOURS[0], "s", (0, (5, 1.5))),
    "clipped": (COLOURS[2], "^", (0, (3, 1, 1, 1))),
    "repaired": (COLOURS[3], "D", "-"),
    "other": (COLOURS[4], "v", (0, (2, 1))),
    "another": (COLOURS[5], "P", (0, (7, 2))),
    "single": (GREY, "x", (0, (4, 2))),
}
_STYLE = {
    "font.size": 13,
    "axes.titlesize": 13,
    "axes.labelsize": 13,
    "xtick.labelsize": 12,
    "ytick.labelsize": 12,
    "legend.fontsize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e3e3e3",
    "grid.linewidth": 0.8,
    "lines.linewidth": 2.0,
    "lines.markersize": 6,
    "legend.frameon": False,
}


def panels(titles: Sequence[str], across: int = 2, **more: Any) -> tuple[Any, list[Any]]:
    """A figure and its axes, at most so many side by side; ``more``: as of ``plt.subplots``."""
    from matplotlib.figure import Figure

    across = min(across, len(titles))
    down = -(-len(titles) // across)
    figure = Figure(figsize=(4.2 * across, 3.4 * down + 0.3), layout="constrained")
    found = figure.subplots(down, across, squeeze=False, **more).ravel()
    for axes, title in zip(found, titles, strict=False):
        axes.set_title(title)
    for axes in found[len(titles) :]:
        axes.remove()
    return figure, list(found[: len(titles)])


def line(
    axes: Any, rows: Rows, x: str, y: str, label: str, look: str | None = None, **more: Any
) -> None:
    """Medians of ``y`` against ``x``, with a band from the tenth to the ninetieth percentile."""
    colour, marker, dashes = LOOKS[look or label]
    at = sorted({row[x] for row in rows})
    values = [rows.where(**{x: each}).of(y) for each in at]
    low, middle, high = np.array([np.quantile(each, (0.1, 0.5, 0.9)) for each in values]).T
    axes.fill_between(at, low, high, color=colour, alpha=0.16, linewidth=0)
    axes.plot(at, middle, color=colour, marker=marker, linestyle=dashes, label=label, **more)


def logarithmic(axes: Any, which: str = "y") -> None:
    """A logarithmic axis with plain numbers, at least three of them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set(**{f"{which}scale": "log"})
    axis = getattr(axes, f"{which}axis")
    low, high = axis.get_view_interval()
    steps = (1.0,) if high / low > 300 else (1.0, 3.0) if high / low > 20 else (1.0, 2.0, 5.0)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Any, axes: Iterable[Any], columns: int = 3) -> None:
    """One legend for all panels, below them."""
    found: dict[str, Any] = {}
    for each in axes:
        found |= dict(zip(*reversed(each.get_legend_handles_labels()), strict=True))
    figure.legend(
        found.values(),
        found.keys(),
        loc="outside lower center",
        ncols=columns,
    )


def draw(make: Callable[[Rows], Any], rows: Rows, path: Path) -> None:
    """Save the figure that is made of rows, as a small PNG of 128 colours."""
    from matplotlib import rc_context
    from PIL import Image

    raw = io.BytesIO()
    with rc_context(_STYLE):
        make(rows).savefig(raw, format="png", dpi=110)
    with write_whole(path) as temporary:
        image = Image.open(raw).convert("RGB").quantize(128, dither=Image.Dither.NONE)
        image.save(temporary, format="PNG", optimize=True)
