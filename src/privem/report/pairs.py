"""Pictures of a fitted model over pairs of columns, by matplotlib."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..files import write_whole
from .shapes import (
    COLOURS,
    FAINT,
    INK,
    Pair,
    Shapes,
    numbers_of,
    pairs_to_show,
    window,
    window_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

# Panels side by side.
_ACROSS = 3
# Letters of a title for each inch, if they were of one point; they are bold.
_LETTERS = 99
# Ellipses: how many deviations wide, and how they are drawn.
_RINGS: tuple[tuple[float, Any], ...] = ((1.0, "-"), (2.0, (0, (4, 2))))


class MissingExtra(ImportError):
    """An optional library is not installed; the message says how to install it.

    Examples
    --------
    >>> print(MissingExtra("matplotlib", "plot", "pictures"))
    matplotlib is not installed; for pictures: pip install "privem[plot]"
    """

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(
            f'{library} is not installed; for {purpose}: pip install "privem[{extra}]"',
            name=library,
        )


def draw_pairs(
    path: str | os.PathLike[str],
    model: Any,
    real: Mapping[str, Array],
    synthetic: Mapping[str, Array],
    pairs: Sequence[tuple[str, str]],
    *,
    labels: Mapping[str, str] | None = None,
    title: str = "",
) -> None:
    """Save a PNG: above the records with the model's components, below records drawn from it.

    Parameters
    ----------
    path : path-like
        Where to save; written whole or not at all.
    model : GaussianMixture
        Fitted, with feature names.
    real, synthetic : mapping of str to ndarray
        Columns of records by name; a data frame's ``to_dict(as_series=False)`` does.
    pairs : sequence of (str, str)
        Which columns to plot against which, one pair for each column of panels.
    labels : mapping of str to str, optional
        What to write on the axes instead of the column names.
    title : str
        Above it all.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    OSError
        If the file cannot be written.
    """
    figure, grid = _panels(2, len(pairs), shared=True)
    names, shapes, columns = dict(labels or {}), model._shapes(), model._names("x")
    for column, (x, y) in enumerate(pairs):
        edges = [*window(real[x]), *window(real[y])]
        top, bottom = grid[0, column], grid[1, column]
        # The same cells and the same shades above and below, or the eye could not compare.
        densest = _shade(top, real, x, y, edges, None)
        _shade(bottom, synthetic, x, y, edges, densest)
        _outline(top, shapes, (columns.index(x), columns.index(y)))
        for axes in (top, bottom):
            _dress(axes, names.get(x, x), names.get(y, y), edges)
    rows = len(next(iter(real.values())))
    drawn = len(next(iter(synthetic.values())))
    fitted = f"the {len(model.weights_)} components fitted to them {_budget(model)}"
    if model.background_weight_:
        fitted += f" (and a background of {model.background_weight_:.2g})"
    headings = [f"{rows:,} records, and {fitted}", f"{drawn:,} records drawn from {_kind(model)}"]
    for heading, panels in zip(headings, grid, strict=True):
        for axes, (x, y) in zip(panels, pairs, strict=True):
            # The first line is for what the row shows, which stands over its first panel alone.
            _entitle(axes, f"\n{_short(names.get(y, y))} by {_short(names.get(x, x))}")
        _head(panels[0], heading)
    _key(figure, shapes)
    if title:
        _name(figure, title)
    save_figure(figure, path)


def plot_pairs(model: Any, columns: Sequence[Any] | None, drawn: Any) -> Figure:
    """A figure of a model's components over records drawn from it, for every pair of columns.

    Parameters
    ----------
    model : estimator
        Fitted.
    columns : sequence of str or int, optional
        Which columns; by default up to four that show most.
    drawn : polars.DataFrame or None
        Records drawn from the model, if it is a distribution.
    """
    names, shapes, records = model._names("x"), model._shapes(), numbers_of(drawn)
    known = set(records) if shapes is None else set(names)
    if len(known) < 2:
        raise ValueError(
            f"a {type(model).__name__} is drawn over two columns of numbers, and this one has "
            f"{len(known) or 'none'}: privem.report.Report shows what there is"
        )
    if isinstance(columns, str):
        raise TypeError(f"columns: a list of at least two names, got {columns!r}")
    if columns is None:
        pairs = pairs_to_show(names, shapes, records)
    else:
        pairs = list(combinations([_place(names, known, column) for column in columns], 2))
        if not pairs:
            raise ValueError("columns: name at least two of them")
    across = min(len(pairs), _ACROSS)
    figure, grid = _panels(-(-len(pairs) // across), across, shared=False)
    for axes, pair in zip(grid.ravel(), pairs, strict=False):
        x, y = (names[j] for j in pair)
        edges = [edge for j in pair for edge in window_of(model, j, shapes, records)]
        if x in records:
            _shade(axes, records, x, y, edges, None)
        _outline(axes, shapes, pair)
        _dress(axes, x, y, edges)
        _entitle(axes, f"{_short(y)} by {_short(x)}")
    for axes in grid.ravel()[len(pairs) :]:
        axes.set_visible(False)
    _key(figure, shapes)
    what = f"{len(drawn):,} records drawn from " if records else ""
    title = f"{what}{_kind(model)}, fitted {_budget(model)}"
    size = 16 if across > 1 else 12
    _name(figure, textwrap.fill(title, int(_LETTERS / size * figure.get_figwidth())), size)
    return figure


def _place(names: Sequence[str], known: set[str], column: Any) -> int:
    """The number of a column that can be drawn."""
    j = column if isinstance(column, int) else -1
    name = names[j] if 0 <= j < len(names) else column
    if name not in known:
        can = ", ".join(each for each in names[:20] if each in known)
        raise ValueError(f"{column!r} is no column of numbers of this model; these are: {can}")
    return names.index(name)


def _kind(model: Any) -> str:
    return "the private model" if hasattr(model, "privacy_") else "the exact model"


def _budget(model: Any) -> str:
    promise = getattr(model, "privacy_", None)
    return "exactly" if promise is None else f"with epsilon {promise.epsilon:g}"


def _panels(rows: int, columns: int, shared: bool) -> tuple[Figure, Any]:
    figure = new_figure(4.6 * columns, 4.5 * rows, dpi=120)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.06, hspace=0.05, wspace=0.05)
    share: Any = "col" if shared else False
    return figure, figure.subplots(rows, columns, sharex=share, sharey=share, squeeze=False)


_TITLE: dict[str, Any] = {"fontsize": 12.5, "color": INK, "linespacing": 1.5}
_PAD = 8


def _entitle(axes: Axes, text: str) -> None:
    axes.set_title(text, loc="left", pad=_PAD, **_TITLE)


def _head(axes: Axes, text: str) -> None:
    """A line above a title; it may be wider than the panel, and takes no place from others."""
    up = (0, _PAD + _TITLE["fontsize"] * _TITLE["linespacing"])
    how = {"xycoords": "axes fraction", "textcoords": "offset points", "annotation_clip": False}
    axes.annotate(text, (0, 1), up, va="bottom", **how, **_TITLE).set_in_layout(False)


def _name(figure: Figure, title: str, size: float = 16) -> None:
    figure.suptitle(title, fontsize=size, fontweight="bold", color=INK, x=0.01, ha="left")


def new_figure(width: float, height: float, dpi: int) -> Figure:
    """An empty white figure, in inches; raises :class:`MissingExtra` without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", "pictures") from None
    return Figure(figsize=(width, height), dpi=dpi, facecolor="white")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a PNG, whole or not at all."""
    with write_whole(path) as temporary:
        # Neither date nor version: the same records give the same bytes.
        figure.savefig(temporary, format="png", metadata={"Software": None})


def _short(label: str) -> str:
    """A label without its unit."""
    return label.partition(",")[0]


def _shade(
    axes: Axes,
    records: Mapping[str, Array],
    x: str,
    y: str,
    window: Sequence[float],
    densest: float | None,
) -> float:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    # From almost white: a cell with one record must show, and colours must stand out on the rest.
    shades = LinearSegmentedColormap.from_list("ink", ["#eef1f4", "#bcc4ce", "#858f9c", "#56606c"])
    seen = np.isfinite(records[x]) & np.isfinite(records[y])
    total = int(seen.sum())
    cells = axes.hexbin(
        records[x][seen],
        records[y][seen],
        C=np.full(total, 1.0 / total),
        reduce_C_function=np.sum,
        gridsize=(46, 27),
        extent=tuple(window),  # type: ignore[arg-type]
        cmap=shades,
        linewidths=0.15,
        edgecolors="face",
    )
    shares = np.asarray(cells.get_array())
    top = float(np.quantile(shares, 0.995)) if densest is None else densest
    # The square root keeps the thin parts of the cloud visible beside the thick ones.
    cells.set_norm(PowerNorm(0.5, vmin=0.0, vmax=top))
    return top


def _outline(axes: Axes, shapes: Shapes | None, at: Pair) -> None:
    """The components: a number at each centre, and ellipses of one and two deviations."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=3.4, foreground="white", alpha=0.85)]
    for k in [] if shapes is None else shapes.shown:
        assert shapes is not None
        colour = COLOURS[k % len(COLOURS)]
        for deviations, style in _RINGS if shapes.covariance is not None else ():
            x, y = shapes.ring(k, at, deviations).T
            axes.plot(x, y, color=colour, linewidth=1.9, linestyle=style, path_effects=halo)
        middle = shapes.centres[k, list(at)]
        axes.text(
            float(middle[0]),
            float(middle[1]),
            str(k),  # as predict numbers them
            ha="center",
            va="center",
            fontsize=9.5,
            fontweight="bold",
            color="white",
            bbox={"boxstyle": "circle,pad=0.22", "facecolor": colour, "edgecolor": "white"},
            clip_on=True,
        )


def _key(figure: Figure, shapes: Shapes | None) -> None:
    from matplotlib.lines import Line2D

    if shapes is None:
        return
    lines: dict[str, dict[str, Any]] = {}
    for k in shapes.shown:
        share = "" if shapes.weights is None else f": {shapes.weights[k]:.0%}"
        lines[f"component {k}{share}"] = {"color": COLOURS[k % len(COLOURS)], "lw": 2.4}
    for deviations, style in _RINGS if shapes.covariance is not None else ():
        label = f"{deviations:g} standard deviation{'s' * (deviations > 1)}"
        lines[label] = {"color": FAINT, "lw": 1.6, "ls": style}
    handles: Any = [Line2D([], [], label=label, **how) for label, how in lines.items()]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=max(1, min(len(handles), int(figure.get_figwidth() / 1.9))),
        frameon=False,
        fontsize=10,
        labelcolor=INK,
        handlelength=1.8,
        columnspacing=1.4,
    )


def _dress(axes: Axes, xlabel: str, ylabel: str, window: Sequence[float]) -> None:
    axes.set(xlim=tuple(window[:2]), ylim=tuple(window[2:]))
    axes.set_xlabel(xlabel, color=INK, fontsize=11)
    axes.set_ylabel(ylabel, color=INK, fontsize=11)
    axes.tick_params(colors=FAINT, labelsize=9.5, length=3, labelbottom=True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#c3c9d1")
