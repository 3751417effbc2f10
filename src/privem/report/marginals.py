"""How each column of synthetic records is spread, for one model or several."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl

from .html import Html, folded, join, tag
from .shapes import Array
from .svg import bars, histogram

# Bars of a column of numbers; categories that are named; columns shown at once, and in all.
_BINS, _NAMED, _SHOWN, _MOST = 24, 8, 12, 120
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def marginals(frames: Sequence[pl.DataFrame], columns: Sequence[str]) -> Html:
    """A small picture for each column; those of many columns are folded.

    ``frames``: records drawn from each model; all of them have these columns.
    """
    panels = [
        tag("div", _column(name, [frame[name] for frame in frames])) for name in columns[:_MOST]
    ]
    pieces = [tag("div", *panels[:_SHOWN], class_="panels")]
    left = len(columns) - len(panels)
    if len(panels) > _SHOWN:
        more = f"{len(panels) - _SHOWN} more columns"
        unsaid = f" (another {left:,} are not drawn)" if left else ""
        pieces.append(folded(more + unsaid, tag("div", *panels[_SHOWN:], class_="panels")))
    return join(pieces)


def _column(name: str, columns: Sequence[pl.Series]) -> Html:
    gaps = [column.null_count() / max(len(column), 1) for column in columns]
    title = f"{name}, {gaps[0]:.0%} missing" if gaps[0] else name
    there = [column.drop_nulls() for column in columns]
    kind = there[0].dtype
    if any(column.dtype != kind for column in there):
        return _categories(title, [column.cast(pl.String) for column in there])
    if kind.is_numeric() or kind.is_temporal():
        if not all(len(column) for column in there):
            return _categories(title, [column.cast(pl.String) for column in there])
        return _numbers(title, there, kind.is_temporal())
    return _categories(title, [column.cast(pl.String) for column in there])


def _numbers(title: str, columns: Sequence[pl.Series], moments: bool) -> Html:
    if moments:
        micros = [column.cast(pl.Datetime("us")).cast(pl.Int64) for column in columns]
        values = [column.to_numpy().astype(np.float64) for column in micros]
    else:
        values = [column.cast(pl.Float64).to_numpy() for column in columns]
    every = np.concatenate(values)
    every = every[np.isfinite(every)]
    low, high = (float(v) for v in np.quantile(every, [0.005, 0.995])) if len(every) else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    whole = columns[0].dtype.is_integer() and high - low < _BINS
    edges = np.arange(low - 0.5, high + 1.0) if whole else np.linspace(low, high, _BINS + 1)
    shares = [np.histogram(each, edges)[0] / max(len(each), 1) for each in values]
    labels = [_moment(end) if moments else f"{end:,.3g}" for end in (low, high)]
    return histogram(title, np.asarray(edges), [np.asarray(each) for each in shares], labels)


def _moment(micros: float) -> str:
    return f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d}"


def _categories(title: str, columns: Sequence[pl.Series]) -> Html:
    counts = [dict(column.value_counts().iter_rows()) for column in columns]
    known = list(dict.fromkeys(name for count in counts for name in count))
    known.sort(key=lambda name: (-counts[0].get(name, 0), str(name)))
    shown = known if len(known) <= _NAMED + 1 else known[:_NAMED]
    totals: Array = np.maximum([float(len(column)) for column in columns], 1.0)

    def shares(names: Sequence[str]) -> list[float]:
        found = [sum(count.get(name, 0) for name in names) for count in counts]
        return [float(share) for share in np.asarray(found) / totals]

    rows = [(str(name), shares([name])) for name in shown]
    if len(shown) < len(known):
        rows.append((f"{len(known) - len(shown)} others", shares(known[len(shown) :])))
    return bars(title, rows)
