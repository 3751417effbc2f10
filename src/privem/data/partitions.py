"""What the workers of a cluster do with a partition of the rows: sums and signs, no noise.

A partition is a piece of an array or of a frame, as ``dask`` computes it, or consecutive rows of
Parquet files, which are read in batches as one process reads files. It becomes rows, and
:class:`~privem.data.sums.LocalSource` sums them as it sums rows of its own.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..core import Block, Rows, Scratch
from ..linalg import RunningSum
from .frame import is_number
from .lazy import ScanRows, reading
from .sums import ArrayRows, LocalSource
from .values import gaps, quietly, refuse_infinite, unmasked


class RowsRefused(ValueError):
    """What is said of rows on purpose, in words that may be shown."""


@dataclass(frozen=True)
class Form:
    """How partitions become rows; public."""

    columns: tuple[str, ...] | None
    """Of a frame; ``None``: partitions are arrays."""
    names: tuple[str, ...] | None
    target: str | None
    weight: str | None
    exact: bool
    missing: bool
    width: int
    """How many features every partition has."""

    @property
    def finite(self) -> bool:
        """Whether every value must be finite, and errors may say which is not."""
        return self.exact and not self.missing

    def rows(self, X: Any, y: Any, weight: Any) -> ArrayRows:
        """The rows of a partition, laid out in memory always alike: sums do not differ by a bit."""
        if self.columns is None:
            values = one_column(X)[:, None] if X.ndim == 1 else doubles(unmasked(X))
            values = np.ascontiguousarray(values)
        else:
            y = y if self.target is None else X[self.target]
            weight = weight if self.weight is None else X[self.weight]
            values = np.asfortranarray(numbers(X[list(self.columns)]))
        if values.ndim != 2 or values.shape[1] != self.width:
            raise RowsRefused("a partition of X has not the columns that X declares")
        target, weight = (None if v is None else one_column(v) for v in (y, weight))
        for name, column in (("y", target), ("sample_weight", weight)):
            if column is not None and len(column) != len(values):
                raise RowsRefused(f"partitions of {name} have not as many rows as those of X")
        rows = ArrayRows(values, weight, self.names, self.finite, target=target)
        if self.exact and len(values):
            if target is not None and not np.isfinite(target).all():
                raise ValueError("Input y contains NaN or infinity; remove such rows first")
            if self.missing:
                refuse_infinite(rows)
        return rows


def doubles(given: Any) -> NDArray[Any]:
    """Numbers of single or double precision."""
    values: NDArray[Any] = np.asarray(given)
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)


def numbers(frame: Any) -> NDArray[np.float64]:
    """A frame's values; NaN for what is no number, where a column is not of its declared type."""
    import pandas

    odd = {n: kind for n, kind in frame.dtypes.items() if not is_number(kind)}
    if odd:
        frame = frame.assign(**{n: pandas.to_numeric(frame[n], errors="coerce") for n in odd})
    return np.asarray(frame.to_numpy(dtype=np.float64, na_value=np.nan))


def one_column(values: Any) -> NDArray[np.float64]:
    """One number per row."""
    if hasattr(values, "to_frame"):
        values = numbers(values.to_frame("values"))
    return np.ascontiguousarray(np.asarray(unmasked(values), dtype=np.float64).reshape(-1))


class Part(Protocol):
    """A partition, or a recipe for one."""

    @property
    def begins(self) -> str:
        """Where its rows are counted from, in words; empty if nobody knows."""

    def rows(self, form: Form) -> Rows:
        """Its rows."""


@dataclass(frozen=True)
class Computed:
    """A partition that dask has computed."""

    X: Any = field(repr=False)
    y: Any = field(repr=False)
    weight: Any = field(repr=False)
    begins: ClassVar[str] = ""

    def rows(self, form: Form) -> ArrayRows:
        """Its rows."""
        return form.rows(self.X, self.y, self.weight)


@dataclass(frozen=True)
class Tasks:
    """A recipe: the tasks of dask that compute X, y and weight, each by its key or ``None``."""

    graph: dict[Any, Any] = field(repr=False)
    keys: Sequence[Any] = field(repr=False)
    begins: ClassVar[str] = ""

    def rows(self, form: Form) -> ArrayRows:
        """The rows, computed here: they never travel."""
        import dask

        found = iter(dask.get(self.graph, [key for key in self.keys if key is not None]))
        return form.rows(*(None if key is None else next(found) for key in self.keys))


@dataclass(frozen=True)
class FilePart:
    """A recipe: consecutive rows of Parquet files, one after another."""

    paths: tuple[str, ...]
    start: int
    """The first row, in the first of the files."""
    count: int
    sizes: tuple[int, ...]
    """How many rows each of the files has: with others, rows would be in two parts, or in none."""

    @property
    def begins(self) -> str:
        """The file and the row of it that is row 0 here."""
        return f", which begins at row {self.start} of {self.paths[0]!r}"

    def rows(self, form: Form) -> ScanRows:
        """The rows, read batch by batch in every pass over them."""
        for path, size in zip(self.paths, self.sizes, strict=True):
            with reading(repr(path)):
                found = pl.scan_parquet([path], glob=False).select(pl.len()).collect().item()
            if found != size:
                raise RowsRefused(
                    f"{path!r} has changed since on_cluster opened it: open it again, when nobody "
                    "writes to it"
                )
        scan = pl.scan_parquet(list(self.paths), glob=False).slice(self.start, self.count)
        label = " to ".join(dict.fromkeys(repr(path) for path in (self.paths[0], self.paths[-1])))
        rows = ScanRows(scan, form.names or (), form.weight, label, check=form.finite)
        if form.exact and form.missing and self.count:
            refuse_infinite(rows)
        return rows


@dataclass(frozen=True)
class Work:
    """What is done with every partition; one message for all of them."""

    form: Form
    function: Callable[[Rows, int], Any]

    def __call__(self, number: int, part: Part) -> Any:
        """On a worker. Nothing is said of a value by a warning."""
        with quietly():
            try:
                return self.function(part.rows(self.form), number)
            except RowsRefused:
                raise
            except ValueError as error:
                # An exact fit's, about a row: of this partition.
                if self.form.exact and str(error).startswith(("Input ", "sample_weight ")):
                    raise RowsRefused(
                        f"{error} (rows of partition {number}{part.begins})"
                    ) from None
                raise


@dataclass(frozen=True)
class Sums:
    """The total of a query over a partition."""

    query: Any
    private: bool
    key: bytes = field(repr=False)

    def __call__(self, rows: Rows, number: int) -> RunningSum[Any]:
        """Partitions draw the cells of their records independently of each other."""
        key = hashlib.shake_256(self.key + number.to_bytes(8, "little")).digest(32)
        return LocalSource(rows, 1, key=key).partial(self.query, self.private)


@dataclass(frozen=True)
class AnyBlock:
    """Whether a function says so of any block."""

    function: Callable[[Block, Scratch], bool]

    def __call__(self, rows: Rows, number: int) -> NDArray[np.bool_]:
        """One sign of a partition."""
        return np.array([any(LocalSource(rows, 1).each(self.function, 4088))])


@dataclass(frozen=True)
class Gaps:
    """Whether a feature, a target and a weight is missing."""

    target: bool

    def __call__(self, rows: Rows, number: int) -> NDArray[np.bool_]:
        """Three signs of a partition."""
        return np.array(gaps(rows, self.target))


def unpack(packed: bytes) -> Any:
    """What the driver has sent; a task of its own, so that it is sent once."""
    return pickle.loads(packed)


def partition(work: Work, number: int, X: Any, y: Any, weight: Any) -> Any:
    """Work on a partition that dask has computed."""
    return work(number, Computed(X, y, weight))


def read_partition(work: Work, number: int, recipe: bytes) -> Any:
    """Work on a partition that is read or computed here."""
    return work(number, unpack(recipe))


def merge_sums(totals: Sequence[RunningSum[Any]]) -> RunningSum[Any]:
    """The total of totals, in their order."""
    merged = RunningSum[Any]()
    for total in totals:
        merged.merge(total)
    return merged


def merge_flags(flags: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    """Which of them are set anywhere."""
    return np.asarray(np.array(flags).any(axis=0))
