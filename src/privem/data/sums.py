"""Rows of an array, and sums over rows: threads over blocks, combined without rounding drift.

:class:`ArrayRows` are the rows of an array, memory-mapped ones included, a sparse one or a data
frame, as blocks; :class:`LocalSource` sums a query over the blocks of any rows on this machine.

Here is the one place where a private query meets rows. A record may hold anything: NaN, infinities,
1e308. Queries clip records to public regions, and their proofs show that contributions are finite
and bounded (``docs/proofs/release.md``, section 11). This module makes sure of it for every query.
NumPy gives no warnings, because a warning about one record's arithmetic would be a release. A
record whose contribution is not finite counts as zero, which is within every bound on
contributions, so sensitivities hold; the other records of its block count as before.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from threadpoolctl import ThreadpoolController

from ..core import Block, Release, Rows, Scratch, Stage
from ..linalg import Array, RunningSum, ravel
from .sampling import cell_rows, fresh_key
from .values import (
    is_frame,
    is_polars,
    quietly,
    refuse_non_finite,
    refuse_weights,
    type_name,
)

T = TypeVar("T")
# A block holds no more numbers than this (8 MB), unless it would be less than so many rows: each
# block's sums are as long as a few rows, and adding them up must not cost more than making them.
# Where they are as long as many rows, a query says how many it should have (``least_rows``).
_NUMBERS, _FEWEST = 2**20, 64
# Numbers in a dense block of sparse rows, at most: 16 megabytes.
_MOST_DENSE = 2**21


@dataclass(frozen=True)
class ArrayRows:
    """Rows of a two-dimensional array of any real dtype, order and strides; never copied whole.

    ``X`` may be a sparse array in CSR form, or a data frame of numbers
    (:func:`privem.data.frame.numeric`): blocks of it become dense arrays when they are read.

    Examples
    --------
    >>> rows = ArrayRows(np.arange(10.0).reshape(5, 2))
    >>> [len(block.X) for block in rows.blocks(2)]
    [2, 2, 1]
    >>> rows = ArrayRows(np.arange(6.0).reshape(3, 2), target=np.array([7.0, 8.0, 9.0]))
    >>> next(rows.blocks(2)).X.tolist()
    [[0.0, 1.0, 7.0], [2.0, 3.0, 8.0]]
    """

    X: Any = field(repr=False)
    weight: NDArray[np.float64] | None = field(default=None, repr=False)
    names: Sequence[str] | None = None
    """Of all columns, the target's last."""
    check: bool = False
    """Refuse NaN, infinities and bad weights while reading; estimators check arrays beforehand, and
    private fits map bad values by a fixed rule (:meth:`privem.blocks.region.Region.to_unit`)."""
    groups: Any = field(default=None, repr=False)
    """Whom each row belongs to, where that is known."""
    target: NDArray[np.float64] | None = field(default=None, repr=False)
    """What the rows are to explain: then it is their last column."""
    declared: Sequence[str] | None = None
    """The type of each column of ``X``, where the array has another."""

    @property
    def n_features(self) -> int:
        """How many columns, the target included."""
        return int(self.X.shape[1]) + (self.target is not None)

    @property
    def count(self) -> int:
        """How many rows."""
        return int(self.X.shape[0])

    @property
    def types(self) -> list[str]:
        """The type of each column of ``X``."""
        if self.declared is not None:
            return list(self.declared)
        return [type_name(self.X.dtype)] * int(self.X.shape[1])

    def owners(self) -> Any:
        """Whom each row belongs to, or ``None``."""
        return self.groups

    def weights(self) -> NDArray[np.float64] | None:
        """The weight of each row, or ``None``."""
        return self.weight

    def take(self, index: NDArray[np.int64]) -> ArrayRows:
        """Some of the rows, unweighted."""
        target = None if self.target is None else self.target[index]
        X = self.X.iloc if is_frame(self.X) and not is_polars(self.X) else self.X
        return replace(self, X=X[index], weight=None, groups=None, target=target)

    def blocks(self, rows: int) -> Iterator[Block]:
        """All rows in order, at most ``rows`` at a time."""
        if issparse(self.X):
            rows = max(1, min(rows, _MOST_DENSE // max(1, self.n_features)))
        for start in range(0, self.count, rows):
            where = slice(start, start + rows)
            block = _dense(self.X[where])
            weight = None if self.weight is None else self.weight[where]
            if self.check:
                refuse_non_finite(block, start, self.names)
                if weight is not None:
                    refuse_weights(weight, start)
            if self.target is not None:
                block = _joined(block, self.target[where])
            yield Block(block, weight, start)


def all_values(rows: Rows) -> Any:
    """All rows as one array: the array they were given as, sparse or not, or a new one."""
    if isinstance(rows, ArrayRows) and not is_frame(rows.X) and rows.target is None:
        return rows.X
    return np.concatenate([block.X for block in rows.blocks(65_536)])


def _dense(part: Any) -> NDArray[Any]:
    """Some rows as an array; what is missing in a frame is NaN."""
    if not is_frame(part):
        return np.asarray(part.toarray() if hasattr(part, "toarray") else part)
    if is_polars(part):
        import polars

        return np.asarray(part.cast(polars.Float64).to_numpy())
    with quietly():  # long doubles may overflow, one record's of all
        return np.asarray(part.to_numpy(dtype=np.float64, na_value=np.nan))


def _joined(X: NDArray[Any], target: NDArray[np.float64]) -> NDArray[np.float64]:
    joined = np.empty((len(X), X.shape[1] + 1))
    joined[:, :-1], joined[:, -1] = X, target
    return joined


def cut(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """Blocks of at most so many rows, whoever made them: error bounds rest on it."""
    for block in blocks:
        if len(block.X) <= rows:
            yield block
            continue
        for at in range(0, len(block.X), rows):
            weight = None if block.weight is None else block.weight[at : at + rows]
            yield Block(block.X[at : at + rows], weight, block.start + at)


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    import scipy.linalg.blas  # noqa: F401  (the controller sees only libraries already loaded)

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread: the threads are ours, and small matrices are slower with more.

    The setting belongs to the process: it is given back when nobody needs it any more, so that a
    worker of a cluster that sums two partitions at once sums both in the same way.
    """
    with _holding:
        _held.append(_held[0] if _held else _blas().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _holding:
            limit = _held.pop()
            if not _held:
                limit.restore_original_limits()


_held: list[Any] = []  # the limit, once for each who needs it
_holding = threading.Lock()


@lru_cache(maxsize=1)
def _cores() -> int:
    """How many cores this process may use, the quota of a container included; as scikit-learn."""
    from joblib import cpu_count

    return int(cpu_count())


def effective_threads(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` means: ``None`` is as many as BLAS may use, -1 every core.

    As in scikit-learn, -2 is every core but one, and cores are those that the process may use.
    Following BLAS means that whoever pins it (``OMP_NUM_THREADS=1``, a joblib worker, a batch
    system) pins privem with the same knob.
    """
    if n_jobs is not None and n_jobs > 0:
        return n_jobs
    cores = _cores()
    if hasattr(os, "sched_getaffinity"):  # may have changed since
        cores = min(cores, len(os.sched_getaffinity(0)))
    if n_jobs is None:
        pools = [p["num_threads"] for p in _blas().info() if p["user_api"] == "blas"]
        return max(1, min(int(count) for count in (cores, *pools)))
    return max(1, cores + 1 + n_jobs)


@dataclass(frozen=True)
class LocalSource:
    """Answers stages from rows on this machine.

    Blocks go to a pool of threads, each with working memory of its own and BLAS held to one
    thread. Results are added in the order of the blocks, so the answer does not depend on
    how many threads there were.

    Parameters
    ----------
    rows : Rows
        What to sum over.
    n_jobs : int, optional
        Threads; see :func:`effective_threads`.

    Examples
    --------
    >>> from privem.blocks.histograms import CountQuery
    >>> from privem.noise.discrete import Discrete
    >>> source = LocalSource(ArrayRows(np.zeros((1000, 2))), n_jobs=1)
    >>> noise = Discrete(1.0, "add-remove", 2000.0)  # at most 2,000 rows: public knowledge
    >>> release = source.release(Stage(CountQuery(), noise))
    >>> bool(900 < release.statistics.count < 1100)  # 1,000 and noise of standard deviation 1
    True
    """

    rows: Rows
    n_jobs: int | None = None
    persons: Rows | None = None
    """One row per person, for queries that look at persons; default: the rows."""
    owner: NDArray[np.int64] | None = None
    """The person each row belongs to; default: one row each."""
    key: bytes | None = field(default=None, repr=False, compare=False)
    """Where records draw their cells of a partition from; secret, by default a fresh one."""

    def each(
        self, function: Callable[[Block, Scratch], T], block_rows: int, least: int = _FEWEST
    ) -> Iterator[T]:
        """Apply a function to every block, in order: predictions, for the holder of the rows."""
        threads = effective_threads(self.n_jobs)
        # Wide rows come fewer at a time, so that memory does not grow with the columns either.
        block_rows = min(block_rows, max(least, _NUMBERS // max(self.rows.n_features, 1)))
        with one_blas_thread():
            yield from map_blocks(function, cut(self.rows.blocks(block_rows), block_rows), threads)

    @cached_property
    def _cells(self) -> bytes:
        """The key, the same throughout."""
        return fresh_key() if self.key is None else self.key

    def _view(self, query: Any) -> Rows:
        cell = getattr(query, "cell", None)
        if cell is not None:
            return cell_rows(self.rows, self._cells, cell.index, cell.count, self.owner)
        match name := getattr(query, "view", "rows"):
            case "rows":
                return self.rows
            case "persons":
                return self.persons or self.rows
        raise ValueError(f"unknown view {name!r}")

    def release(self, stage: Stage) -> Release[Any]:
        """Sum the stage's query over all rows, apply its noise, publish."""
        query, private = stage.query, stage.noise.private
        with quietly() if private else nullcontext():
            return publish(stage, self.partial(query, private), self.rows.n_features)

    def total(self, query: Any, private: bool) -> Any:
        """The sum of a query, without noise; over no rows it is zero. Secret.

        ``private``: records that contribute anything but finite numbers are left out.
        """
        with quietly():
            value = self.partial(query, private).value()
            return _none(query, self.rows.n_features) if value is None else value

    def partial(self, query: Any, private: bool) -> RunningSum[Any]:
        """The same, to be merged with those of other rows; empty if there are no rows. Secret."""
        total = self._sum(query, query)
        # What is not finite stays so, whatever is added: one look at the end is enough.
        if private and not ((value := total.value()) is None or is_finite(value)):
            total = self._sum(query, finite_sums(query))
        return total

    def _sum(self, query: Any, function: Callable[[Block, Scratch], Any]) -> RunningSum[Any]:
        """The sum of the function over the blocks that the query looks at."""
        total, rows = RunningSum[Any](), self._view(query)
        # Rows on an accelerator may sum the query where they are.
        if function is query and (summed := getattr(rows, "summed", None)) is not None:
            value = summed(query)
            if value is not None:
                total.add(value)
                return total
        viewed = replace(self, rows=rows)
        least = getattr(query, "least_rows", _FEWEST)
        for part in viewed.each(function, query.block_rows, least):
            total.add(part)
        return total


def publish(stage: Stage, total: RunningSum[Any], n_features: int) -> Release[Any]:
    """The release of a sum over all rows, wherever they were summed; over none it is zero.

    No rows is nothing special to a private fit.
    """
    value = total.value()
    if value is None and not stage.noise.private:
        raise ValueError("Found array with 0 sample(s): there are no rows to fit")
    return stage.noise.release(
        stage.query, _none(stage.query, n_features) if value is None else value
    )


def _none(query: Any, n_features: int) -> Any:
    """The sum over no rows."""
    return query(Block(np.empty((0, n_features))), Scratch())


def map_blocks(
    function: Callable[[Block, Scratch], T], blocks: Iterator[Block], threads: int
) -> Iterator[T]:
    """The function of each block, in order; at most two blocks per thread are in memory."""
    if threads == 1:
        scratch = Scratch()
        for block in blocks:
            yield function(block, scratch)
        return
    local = threading.local()

    def work(block: Block) -> T:
        if not hasattr(local, "scratch"):
            local.scratch = Scratch()
        return function(block, local.scratch)

    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for block in blocks:
                # In a copy of our context: what we set NumPy to do about errors holds there too.
                waiting.append(pool.submit(copy_context().run, work, block))
                if len(waiting) >= 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def finite_sums(query: Any) -> Callable[[Block, Scratch], Any]:
    """The query, with records that contribute anything but finite numbers left out of its sums."""

    def sums(block: Block, scratch: Scratch) -> Any:
        whole = query(block, scratch)
        if is_finite(whole):
            return whole
        total = RunningSum[Any]()
        total.add(query(Block(block.X[:0]), scratch))
        for record in cut([block], 1):
            one = query(record, scratch)
            if is_finite(one):
                total.add(one)
        return total.value()

    return sums


def contributions(query: Any, block: Block, scratch: Scratch) -> Array:
    """What each record adds, (size, b); zeros where that is not finite."""
    with quietly():
        found: Array = query.contributions(block, scratch)
    found[:, ~np.isfinite(found).all(axis=0)] = 0.0
    return found


def is_finite(statistics: Any) -> bool:
    """Whether all of a statistic's numbers are."""
    return bool(np.isfinite(ravel(statistics)).all())
