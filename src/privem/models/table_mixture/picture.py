"""A picture of a mixed table beside what it should be like: single columns, and pairs of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core import Block, Scratch
from ...data.columns import Moment, Number
from ...report.pairs import new_figure, save_figure
from ...schema import Schema
from .tables import TablesQuery

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

_COLOURS = ("#0072B2", "#D55E00")
_INK, _FAINT = "#22262b", "#6b7280"
# Bars of a column, columns and pairs that are shown, panels side by side.
_BARS, _COLUMNS, _PAIRS, _ACROSS = 32, 12, 4, 4
# So many categories are in the order of the schema; of more, the most frequent come first.
_IN_ORDER = 20


@dataclass(frozen=True)
class Shares:
    """How records are spread over the cells of each column, and the bins of pairs of columns.

    Parameters
    ----------
    cells : list of array
        Of each column's fine cells.
    pairs : mapping of (int, int) to array
        Tables of the bins of two columns.
    noise : float
        Standard deviation of the noise on each number of the tables, as a share of all records.
    """

    cells: list[Array]
    pairs: Mapping[tuple[int, int], Array]
    noise: float = 0.0

    @classmethod
    def of(cls, rows: NDArray[np.int64], schema: Schema, bins: Sequence[NDArray[Any]]) -> Shares:
        """Of rows of fine cells; ``bins``: the bin of each cell, for each column."""
        cells = [
            np.bincount(rows[:, j], minlength=column.size) / len(rows)
            for j, column in enumerate(schema.columns)
        ]
        pairs = tuple(combinations(range(len(bins)), 2))
        if not pairs:
            return cls(cells, {})
        query = TablesQuery(tuple(tuple(each.tolist()) for each in bins), pairs)
        counts = query(Block(rows.astype(np.float64)), Scratch()).counts
        return cls(cells, dict(zip(pairs, query.split(counts / len(rows)), strict=True)))

    def strongest(self, most: int) -> list[tuple[int, int]]:
        """The pairs that depend most, of those that do so more than noise explains."""
        found = {}
        for pair, table in self.pairs.items():
            apart = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(float(table.sum()), 1e-9)
            # The sizes of the noise of all numbers: their mean, and four deviations.
            noise = self.noise * (0.8 * table.size + 4 * 0.6 * np.sqrt(table.size))
            found[pair] = float(np.abs(table - apart).sum() - noise)
        seen = [pair for pair, value in found.items() if value > 0]
        return sorted(seen, key=lambda pair: -found[pair])[:most]


def draw_tables(
    path: str | os.PathLike[str],
    schema: Schema,
    bins: Sequence[NDArray[Any]],
    one: Shares,
    other: Shares,
    *,
    names: tuple[str, str] = ("released, with noise", "synthetic"),
    title: str = "",
) -> None:
    """Save a PNG: columns of one table beside those of another, and the strongest pairs of both.

    Parameters
    ----------
    path : path-like
        Where to save; written whole or not at all.
    schema : Schema
    bins : sequence of array
        The bin of each cell, for each column: the grid of the pairs.
    one, other : Shares
        What is compared: noisy releases, or another table; and the synthetic table.
    names : (str, str)
        What the legend calls them.
    title : str
        Above it all.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    OSError
        If the file cannot be written.
    """
    shown, pairs = schema.columns[:_COLUMNS], one.strongest(_PAIRS)
    rows = -(-len(shown) // _ACROSS)
    figure = new_figure(4.2 * _ACROSS, 2.9 * rows + (6.6 if pairs else 0) + 0.9, dpi=100)
    figure.set_layout_engine("constrained", w_pad=0.08, h_pad=0.08, hspace=0.04, wspace=0.04)
    heights = [2.9] * rows + [3.3, 3.3] * bool(pairs)
    grid = figure.subplots(
        len(heights), _ACROSS, squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    for axes in grid.ravel():
        axes.set_visible(False)
    below = False
    for j, column in enumerate(shown):
        axes = grid[j // _ACROSS, j % _ACROSS]
        below |= _bars(axes, schema, j, (one.cells[j], other.cells[j]))
        axes.set_title(column.name, loc="left", color=_INK, fontsize=12)
    for k, pair in enumerate(pairs):
        top = max(float(np.quantile(one.pairs[pair], 0.98)), 1e-9)
        for row, shares, name in ((rows, one, names[0]), (rows + 1, other, names[1])):
            axes = grid[row, k]
            _table(axes, schema, bins, pair, shares.pairs[pair], top)
            across, along = (schema.names[j] for j in pair)
            axes.set_title(f"{along} by {across}\n{name}", loc="left", color=_INK, fontsize=11)
    from matplotlib.patches import Patch

    said = (f"{names[0]} (negative numbers are drawn as zero)" if below else names[0], names[1])
    handles = [Patch(color=c, label=n, alpha=0.6) for c, n in zip(_COLOURS, said, strict=True)]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=11)
    if title:
        figure.suptitle(title, fontsize=15, fontweight="bold", color=_INK, x=0.01, ha="left")
    save_figure(figure, path)


def _bars(axes: Axes, schema: Schema, j: int, shares: tuple[Array, Array]) -> bool:
    """Shares of one column: steps for what is ordered, pairs of bars for categories.

    Noise may make shares negative: these are drawn as zero, and whether there are any is returned.
    """
    axes.set_visible(True)
    column, labels = schema.columns[j], _labels(schema, j)
    there = column.size - column.missing
    starts = np.arange(there)
    if isinstance(column, Number | Moment):
        wide = np.diff(column.starts)
        starts = starts[:: max(-(-there // _BARS), 1)]
        if wide.max() > 1.5 * wide.min():  # bars of equal width, of cells that are not
            edges = np.linspace(column.starts[0], column.high or 0, _BARS + 1)[:-1]
            starts = np.unique(np.searchsorted(column.starts, edges))
    both = [np.add.reduceat(each[:there], starts) for each in shares]
    order = np.arange(len(starts))
    if not column.ordered and there > _IN_ORDER:
        order = np.argsort(-both[1], kind="stable")[:_BARS]
        both = [each[order] for each in both]
    gaps = [each[-1:] for each in shares] if column.missing else []
    below = any((each < 0).any() for each in (*both, *gaps))
    both, gaps = ([np.maximum(each, 0.0) for each in part] for part in (both, gaps))
    at = np.arange(len(order))
    if column.ordered:
        for each, colour in zip(both, _COLOURS, strict=True):
            axes.stairs(each, np.arange(len(each) + 1) - 0.5, color=colour, fill=True, alpha=0.28)
            axes.stairs(each, np.arange(len(each) + 1) - 0.5, color=colour, linewidth=1.5)
    else:
        for each, colour, side in zip(both, _COLOURS, (-0.2, 0.2), strict=True):
            axes.bar(at + side, each, 0.4, color=colour, alpha=0.6)
    if column.missing:
        last = len(at) + (1 if column.ordered else 0)
        for each, colour, side in zip(gaps, _COLOURS, (-0.4, 0.4), strict=True):
            axes.bar(last + 0.8 + side, each, 0.8, color=colour, alpha=0.6)
    step = max(-(-len(at) // (6 if column.ordered else 10)), 1)
    ticks = list(at[::step])
    said = [labels[starts[order[k]]] for k in ticks]
    if column.missing:
        ticks, said = [*ticks, last + 0.8], [*said, "missing"]
    _dress(axes)
    axes.set_xticks(ticks, said, rotation=30, ha="right")
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("share of records", color=_FAINT, fontsize=9)
    return below


def _table(
    axes: Axes,
    schema: Schema,
    bins: Sequence[NDArray[Any]],
    pair: tuple[int, int],
    table: Array,
    top: float,
) -> None:
    from matplotlib.colors import LinearSegmentedColormap, PowerNorm

    axes.set_visible(True)
    shades = LinearSegmentedColormap.from_list("ink", ["#ffffff", "#bcc4ce", "#56606c", "#15191d"])
    shown = np.clip(table, 0.0, None)
    orders = [_order(bins[j]) for j in pair]
    axes.pcolormesh(shown[np.ix_(*orders)].T, cmap=shades, norm=PowerNorm(0.5, vmin=0.0, vmax=top))
    _dress(axes)
    for j, order, ticks in zip(pair, orders, (axes.set_xticks, axes.set_yticks), strict=True):
        labels, every = _labels(schema, j), max(len(order) // 6, 1)
        at = range(0, len(order), every)
        said = [labels[int(np.argmax(bins[j] == order[k]))] for k in at]
        turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if j == pair[0] else {}
        ticks([k + 0.5 for k in at], said, **turned)


def _order(bin_of: NDArray[Any]) -> NDArray[Any]:
    """Bins by their first cells."""
    return np.asarray(np.argsort(np.unique(bin_of, return_index=True)[1]))


def _labels(schema: Schema, j: int) -> list[str]:
    """What cells are called: their first values, shortly."""
    column = schema.columns[j]
    firsts = schema.firsts(column.name).to_list()
    if isinstance(column, Number | Moment):
        said = [_brief(v) if isinstance(v, float) else str(v)[:16] for v in firsts]
    else:
        said = [str(v) if len(str(v)) <= 14 else f"{str(v)[:11]}..." for v in firsts]
    return [*said[:-1], "missing"] if column.missing else said


def _brief(number: float) -> str:
    return f"{number:,.0f}" if 1e3 <= abs(number) < 1e7 else f"{number:.4g}"


def _dress(axes: Axes) -> None:
    axes.tick_params(colors=_FAINT, labelsize=8.5, length=3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#c3c9d1")
