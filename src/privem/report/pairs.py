"""A picture of records, of the mixture fitted to them, and of records drawn from it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

# Okabe and Ito's colours, which people of all kinds of colour vision tell apart; black and the
# faint yellow are left out.
_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_INK, _FAINT = "#22262b", "#6b7280"


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
    columns = len(pairs)
    figure = new_figure(4.6 * columns, 9.0, dpi=120)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.06, hspace=0.05, wspace=0.05)
    grid = figure.subplots(2, columns, sharex="col", sharey="col", squeeze=False)
    names = dict(labels or {})
    for column, (x, y) in enumerate(pairs):
        window = [*_window(real[x]), *_window(real[y])]
        top, bottom = grid[0, column], grid[1, column]
        # The same cells and the same shades above and below, or the eye could not compare.
        densest = _shade(top, real, x, y, window, None)
        _shade(bottom, synthetic, x, y, window, densest)
        _ellipses(top, model, x, y)
        for axes in (top, bottom):
            _dress(axes, names.get(x, x), names.get(y, y), window)
    rows = len(next(iter(real.values())))
    drawn = len(next(iter(synthetic.values())))
    promise = getattr(model, "privacy_", None)
    budget = "exactly" if promise is None else f"with epsilon {promise.epsilon:g}"
    fitted = f"the {len(model.weights_)} components fitted to them {budget}"
    if model.background_weight_:
        fitted += f" (and a background of {model.background_weight_:.2g})"
    kind = "exact" if promise is None else "private"
    headings = [f"{rows:,} records, and {fitted}", f"{drawn:,} records drawn from the {kind} model"]
    for heading, panels in zip(headings, grid, strict=True):
        for axes, (x, y) in zip(panels, pairs, strict=True):
            # What the row shows stands over its first panel; what a panel shows, over each.
            above = heading if axes is panels[0] else ""
            what = f"{_short(names.get(y, y))} by {_short(names.get(x, x))}"
            axes.set_title(
                f"{above}\n{what}", loc="left", fontsize=12.5, color=_INK, pad=8, linespacing=1.5
            )
    _key(figure, model)
    if title:
        figure.suptitle(title, fontsize=16, fontweight="bold", color=_INK, x=0.01, ha="left")
    save_figure(figure, path)


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


def _window(values: Array) -> tuple[float, float]:
    """Limits that show all but a few outliers, with some air."""
    low, high = (float(v) for v in np.quantile(values, [0.0005, 0.9995]))
    air = 0.04 * (high - low) or 1.0
    return low - air, high + air


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
    total = len(records[x])
    cells = axes.hexbin(
        records[x],
        records[y],
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


def _covariance(model: Any, k: int) -> Array:
    """The d x d covariance of one component, whatever the covariance type."""
    tied = model.covariance_type == "tied"
    covariance = np.asarray(model.covariances_ if tied else model.covariances_[k])
    # A vector of variances, or the one of all columns, is a diagonal.
    return covariance if covariance.ndim == 2 else covariance * np.eye(model.means_.shape[1])


def _ellipses(axes: Axes, model: Any, x: str, y: str) -> None:
    from matplotlib.patches import Ellipse
    from matplotlib.patheffects import withStroke

    where = [model._names().index(name) for name in (x, y)]
    halo = [withStroke(linewidth=3.4, foreground="white", alpha=0.85)]
    for k in range(len(model.weights_)):
        colour = _COLOURS[k % len(_COLOURS)]
        middle = model.means_[k][where]
        values, vectors = np.linalg.eigh(_covariance(model, k)[np.ix_(where, where)])
        angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
        for deviations, style in ((1.0, "-"), (2.0, (0, (4, 2)))):
            width, height = 2 * deviations * np.sqrt(np.maximum(values[::-1], 0.0))
            ring = Ellipse(tuple(middle), width, height, angle=angle, fill=False)
            ring.set(edgecolor=colour, linewidth=1.9, linestyle=style, path_effects=halo)
            axes.add_patch(ring)
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
        )


def _key(figure: Figure, model: Any) -> None:
    from matplotlib.lines import Line2D

    lines: dict[str, dict[str, Any]] = {
        f"component {k}: {weight:.0%}": {"color": _COLOURS[k % len(_COLOURS)], "lw": 2.4}
        for k, weight in enumerate(model.weights_)
    }
    lines["1 standard deviation"] = {"color": _FAINT, "lw": 1.6}
    lines["2 standard deviations"] = {"color": _FAINT, "lw": 1.6, "ls": (0, (4, 2))}
    handles: Any = [Line2D([], [], label=label, **how) for label, how in lines.items()]
    figure.legend(
        handles=handles,
        loc="outside lower center",
        ncols=len(handles),
        frameon=False,
        fontsize=10,
        labelcolor=_INK,
        handlelength=1.8,
        columnspacing=1.4,
    )


def _dress(axes: Axes, xlabel: str, ylabel: str, window: Sequence[float]) -> None:
    axes.set(xlim=tuple(window[:2]), ylim=tuple(window[2:]))
    axes.set_xlabel(xlabel, color=_INK, fontsize=11)
    axes.set_ylabel(ylabel, color=_INK, fontsize=11)
    axes.tick_params(colors=_FAINT, labelsize=9.5, length=3, labelbottom=True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#c3c9d1")
