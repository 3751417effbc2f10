"""Rows of a polars lazy frame: of files, or one that the user made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..core import Block
from .header import Header
from .persons import identifiers
from .sampling import SelectedRows, picked_rows
from .sums import cut
from .values import refuse_non_finite, refuse_weights

# Rows per batch asked of polars: big enough to amortise a batch, small enough for the cache.
BATCH = 32_768


@dataclass(frozen=True)
class ScanRows:
    """Rows of a polars scan: nothing is read until a pass, and then batch by batch."""

    scan: pl.LazyFrame
    names: Sequence[str]
    weight: str | NDArray[np.float64] | None = None
    label: str = "the file"
    check: bool = True
    """Refuse values that are not finite, and bad weights, while reading."""
    types: Sequence[str] | None = None
    """What synthetic records give back; rows are read as ``float64`` whatever it is."""
    groups: str | None = None
    """A column that says whom each row belongs to."""
    target: str | None = None
    """The last column, if the rows were opened with a target."""
    header: Header | None = None
    """Which column names messages may quote; ``None``: all."""
    cells: bool = False
    """Whether the columns are numbers of cells, or of what cells will be cut from: then they are
    read as they are, what is null as zero, and NaN is a number too."""

    @property
    def n_features(self) -> int:
        """How many columns."""
        return len(self.names)

    def held(self) -> ScanRows:
        """The same rows, read once into memory.

        A lazy frame that a user made may have rows in another order whenever it is run (after a
        join, say), but whom a row belongs to, and in which cell of a partition it lies, goes by its
        place.
        """
        more = [name for name in (self.weight, self.groups) if isinstance(name, str)]
        wanted = dict.fromkeys([*self.names, *more])
        return replace(self, scan=self._collect(*map(pl.col, wanted)).lazy())

    def take(self, index: NDArray[np.int64]) -> SelectedRows:
        """Some of the rows, unweighted, in the order of the file."""
        return picked_rows(replace(self, weight=None), index)

    def owners(self) -> NDArray[Any] | None:
        """Whom each row belongs to, one identifier per row, read whole; or ``None``."""
        if self.groups is None:
            return None
        return identifiers(self._collect(pl.col(self.groups)).to_series())

    def weights(self) -> NDArray[np.float64] | None:
        """The weight of each row, read whole; NaN where it is missing."""
        if isinstance(self.weight, str):
            return self._collect(pl.col(self.weight).cast(pl.Float64)).to_series().to_numpy()
        return self.weight

    def missing(self, target: bool) -> tuple[bool, bool, bool]:
        """Whether a feature, a target and a weight is missing; one pass, of those columns only."""
        by_name = [self.weight] if isinstance(self.weight, str) else []
        gaps = [
            (column.is_null() if self.cells else column.is_null() | column.is_nan()).any()
            for column in (pl.col(name).cast(pl.Float64) for name in self.names)
        ]
        gaps += [pl.col(name).cast(pl.Float64).fill_null(np.nan).is_nan().any() for name in by_name]
        found = self._collect(*(gap.alias(str(j)) for j, gap in enumerate(gaps))).row(0)
        last = len(self.names) - target
        weight = any(found[len(self.names) :])
        if isinstance(self.weight, np.ndarray):
            weight = bool(np.isnan(self.weight).any())
        return any(found[:last]), any(found[last : len(self.names)]), weight

    def _collect(self, *wanted: pl.Expr) -> pl.DataFrame:
        with reading(self.label, header=self.header):
            return self.scan.select(*wanted).collect(engine="streaming")

    def _batches(self) -> Iterator[pl.DataFrame]:
        columns = [pl.col(name).cast(pl.Float64) for name in self.names]
        if self.cells:
            columns = [pl.col(name).fill_null(0) for name in self.names]
        weight = [pl.col(self.weight).cast(pl.Float64)] if isinstance(self.weight, str) else []
        scan = self.scan.select(*columns, *weight)
        with reading(self.label, header=self.header, quote=self.check):
            yield from scan.collect_batches(chunk_size=BATCH, maintain_order=True)

    def blocks(self, rows: int) -> Iterator[Block]:
        """All rows in order, at most ``rows`` at a time."""
        start = 0
        for batch in self._batches():
            X = batch[:, : self.n_features].to_numpy()
            if self.check:
                refuse_non_finite(X, start, self.names, self.header)
            weight = None
            if isinstance(self.weight, str):
                weight = batch.to_series(-1).to_numpy()
            elif self.weight is not None:
                weight = self.weight[start : start + len(X)]
                if len(weight) < len(X):
                    raise self._wrong_length(self.weight, "more")
            if weight is not None and self.check:
                refuse_weights(weight, start)
            yield from cut([Block(X, weight, start)], rows)
            start += len(X)
        if isinstance(self.weight, np.ndarray) and len(self.weight) > start:
            raise self._wrong_length(self.weight, "fewer")

    def _wrong_length(self, weight: NDArray[Any], rows: str) -> ValueError:
        return ValueError(f"sample_weight has shape {weight.shape}, {self.label} has {rows} rows")


@contextmanager
def reading(
    label: str,
    failure: str = "could not be read",
    header: Header | None = None,
    quote: bool = False,
) -> Iterator[None]:
    """Say what polars cannot read; ``quote`` the value, in exact fits only."""
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        raise ValueError(f"{label} {failure}: {_first_line(error, quote, header)}") from None


def _first_line(error: Exception, quote: bool, header: Header | None) -> str:
    # What polars advises its own users is no help to ours.
    line = str(error).strip().splitlines()[0].partition(", hint:")[0]
    public = header is None or header.public is None
    if quote and public:
        return line
    head, quoted, rest = line.partition("`")
    if not quoted:
        return line if public or line.startswith(_PLAIN) else "polars cannot read it"
    value = f"`{rest.partition('`')[0]}`" if quote else "a value"
    where = r" at column '.*?'" if public else r" \(column number \d+\)"
    column = re.search(where, line)
    return f"{head.rstrip()} {value}" + (column[0] if column else "")


# What polars says without quoting anything.
_PLAIN = ("found more fields than defined in 'Schema'", "invalid utf-8 sequence")
