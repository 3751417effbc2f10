"""Columns whose bounds or categories are to be found: read as numbers now, cut into cells later.

A private fit finds bounds and categories by releases, so that cells are known only after these.
Until then a column is held as numbers, each of which depends on one record alone:

- numbers as they are, to the resolution that is declared;
- text as a code, 48 bits of a hash. Texts that share a code would count as one in tables of
  cells; their names are never taken from codes (:class:`Texts`);
- NaN for what is missing, and for what cannot be read.

A :class:`Cut` then gives the cell of each number. It is public, and part of a query.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..core import Release, Source, Stage
from .cells import GAPS, read, rounded
from .columns import LARGEST_WHOLE, Category, Column, Number
from .header import Header
from .lazy import BATCH, reading
from .persons import one_of_each
from .values import quietly


def is_open(column: Column) -> bool:
    """Whether bounds or categories are to be found."""
    return not column.known


def bounded(column: Number, low: float, high: float) -> Number:
    """A column with bounds that were found, as wide as need be for its resolution and type.

    A bound that was given stays; if the one that was found contradicts it, that one moves.

    Examples
    --------
    >>> bounded(Number("age", whole=True, dtype="uint8"), -3.2, 99.5).spelled()
    '(int, 0, 100)'
    >>> bounded(Number("income", 0), -120.5, 9e4).spelled()
    '(0, 90000.0)'
    >>> bounded(Number("weight", decimals=1), 48.23, 97.0).as_dict()
    {'bounds': [48.2, 97.0], 'decimals': 1}
    """
    scale, given = column.scale, (column.low, column.high)
    low, high = (low if given[0] is None else given[0]), (high if given[1] is None else given[1])
    if low >= high:
        room = max(1.0, abs(low), abs(high))
        low, high = (high - room, high) if given[0] is None else (low, low + room)
    if scale is not None:
        # Of decimals, room for the rounding of a bound that has as many digits as a double.
        most = LARGEST_WHOLE if column.whole else LARGEST_WHOLE // 2
        least = -most
        if column.whole and column.dtype is not None:
            held = np.iinfo(column.dtype)
            least, most = max(least, int(held.min)), min(most, int(held.max))
        first = max((math.floor if given[0] is None else math.ceil)(low * scale), least)
        last = min((math.ceil if given[1] is None else math.floor)(high * scale), most)
        if first >= last:
            first, last = (
                (first, first + 1) if given[1] is None and first < most else (last - 1, last)
            )
        low, high = (first, last) if column.whole else (first / scale, last / scale)
    elif column.dtype == "float32":
        low, high = -_single_above(-low), _single_above(high)
    low, high = (low if given[0] is None else given[0]), (high if given[1] is None else given[1])
    return replace(column, low=low, high=high)


def _single_above(value: float) -> float:
    """The smallest number of single precision that is no smaller."""
    nearest = np.float32(value)
    return float(nearest if float(nearest) >= value else np.nextafter(nearest, np.float32(np.inf)))


def raw(column: Column) -> pl.Expr:
    """The number that an open column holds for each value.

    Null where there is a gap and the column may have none; NaN for other gaps, and for what cannot
    be read.

    Examples
    --------
    >>> frame = pl.DataFrame({"age": ["31", "1e9", "soon", ""]})
    >>> frame.select(raw(Number("age", whole=True)))["age"].to_list()
    [31.0, 1000000000.0, nan, None]
    """

    def numbers(series: pl.Series) -> pl.Series:
        if isinstance(column, Number):
            value, gap = read(column, series)
            found = value.fill_null(np.nan).to_numpy()
            found = found if column.scale is None else rounded(found, column.scale)
        else:
            text = as_texts(series)
            gap, found = text.is_null(), codes(text)
        made = pl.Series(series.name, found, pl.Float64)
        return made if column.missing or not gap.any() else made.set(gap, None)

    return pl.col(column.name).map_batches(numbers, return_dtype=pl.Float64, is_elementwise=True)


def as_texts(series: pl.Series) -> pl.Series:
    """Values as text without blanks around it; null for gaps.

    Examples
    --------
    >>> as_texts(pl.Series(["Bonn ", "n/a", None])).to_list()
    ['Bonn', None, None]
    """
    gap = series.is_nan().fill_null(True) if series.dtype.is_float() else series.is_null()
    text = series.cast(pl.String).str.strip_chars()
    return text.set(gap | text.str.to_lowercase().is_in(GAPS).fill_null(True), None)


def codes(text: pl.Series) -> NDArray[np.float64]:
    """The numbers that stand for texts: 48 bits, which a double holds; NaN for null.

    Examples
    --------
    >>> one, other, none, again = codes(pl.Series(["Bonn", "Cork", None, "Bonn"])).tolist()
    >>> one == again != other, 0 <= one < 2**48, none
    (True, True, nan)
    """
    hashed = text.hash(seed=0).to_numpy() >> np.uint64(16)
    return np.where(text.is_null().to_numpy(), np.nan, hashed.astype(np.float64))


@dataclass(frozen=True)
class Cut:
    """The cell of each number of a column: between which of the borders it lies.

    Parameters
    ----------
    starts : array of shape (n,)
        Borders, in ascending order; a number at a border lies above it.
    cells : array of shape (n + 1,)
        The cell between each two borders, and of what lies below all and above all.
    rest : int
        The cell of NaN.

    Examples
    --------
    >>> cut = Cut.of(Number("age", 0, 9, whole=True, missing=True))
    >>> cut(np.array([-5.0, 0.0, 3.0, 99.0, np.nan]))
    array([ 0,  0,  3,  9, 10])
    """

    starts: NDArray[np.float64]
    cells: NDArray[np.int64]
    rest: int

    @classmethod
    def of(cls, column: Column, texts: Mapping[str, int] | None = None) -> Cut:
        """For a column of which all is known by now; ``texts``: the cell of each text."""
        gap = column.size - 1 if column.missing else 0
        if isinstance(column, Category):
            known = texts or {}
            numbers = codes(pl.Series(list(known), dtype=pl.String)).tolist()
            places = dict(zip(numbers, known.values(), strict=True))
            last = column.size - 1 - column.missing
            starts = [border for each in sorted(places) for border in (each, each + 1)]
            between = [cell for each in sorted(places) for cell in (places[each], last)]
            return cls(np.array(starts, np.float64), np.array([last, *between], np.int64), gap)
        assert isinstance(column, Number)
        count = len(column.starts)
        return cls(column.starts, np.concatenate([[0], np.arange(count)]), gap)

    def __call__(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """The cells of a column's numbers."""
        cells = self.cells[np.searchsorted(self.starts, values, side="right")]
        return np.where(np.isnan(values), self.rest, cells)


@dataclass(frozen=True)
class Texts:
    """The values of columns whose categories are to be found. Secret."""

    scan: pl.LazyFrame
    label: str
    header: Header

    def counts(self, names: Sequence[str], owner: NDArray[np.int64] | None) -> list[Counter[str]]:
        """How many records have each value, of each column; of a person's, one drawn at random."""
        chosen = None
        if owner is not None:
            chosen = np.zeros(len(owner), dtype=np.bool_)
            chosen[one_of_each(owner)] = True
        found: list[Counter[str]] = [Counter() for _ in names]
        at = 0
        with reading(self.label, header=self.header):
            batches = self.scan.select(names).collect_batches(chunk_size=BATCH, maintain_order=True)
            for batch in batches:
                start, at = at, at + batch.height
                if chosen is not None:
                    marks = chosen[start:at]
                    # Rows beyond the last, in a file that has grown, are nobody's.
                    batch = batch.filter(np.pad(marks, (0, batch.height - len(marks))))
                for name, counter in zip(names, found, strict=True):
                    texts = as_texts(batch[name].alias("text")).drop_nulls()
                    values, counts = texts.value_counts(name="count")
                    counter.update(dict(zip(values.to_list(), counts.to_list(), strict=True)))
        return found


@dataclass(frozen=True)
class ListedSource:
    """Answers what another source does, and queries about the values of text.

    These have the view ``"values"``, name their ``columns``, and are answered with noise only.
    """

    source: Source
    texts: Texts
    owner: NDArray[np.int64] | None = None

    def release(self, stage: Stage) -> Release[Any]:
        """Count values for those who ask for them; all else is the source's."""
        query: Any = stage.query
        if getattr(query, "view", "rows") != "values":
            return self.source.release(stage)
        if not stage.noise.private:
            raise ValueError("values of text are counted for private fits only")
        with quietly():
            return stage.noise.release(query, self.texts.counts(query.columns, self.owner))
