"""Sums over rows on this machine: threads over blocks, combined without rounding drift.

This is the one place where a private query meets rows. A record may hold anything: NaN, infinities,
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
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from ..core import Block, Release, Rows, Scratch, Stage
from ..tree import Array, RunningSum, ravel
from .sampling import cell_rows, cut, fresh_key
from .values import quietly

T = TypeVar("T")

# A block holds no more numbers than this (8 MB), unless it would be less than so many rows: each
# block's sums are as long as a few rows, and adding them up must not cost more than making them.
# Where they are as long as many rows, a query says how many it should have (``least_rows``).
_NUMBERS, _FEWEST = 2**20, 64


@lru_cache(maxsize=1)
def _blas() -> ThreadpoolController:
    import scipy.linalg.blas  # noqa: F401  (the controller sees only libraries already loaded)

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Hold BLAS to one thread: the threads are ours, and small matrices are slower with more."""
    limit: AbstractContextManager[Any] = _blas().limit(limits=1, user_api="blas")
    return limit


def effective_threads(n_jobs: int | None) -> int:
    """How many threads ``n_jobs`` means: ``None`` is as many as BLAS may use, -1 every core.

    Following BLAS means that whoever pins it (``OMP_NUM_THREADS=1``, a joblib worker, a batch
    system) pins privem with the same knob.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = cores or 1
    if n_jobs is None:
        pools = [p["num_threads"] for p in _blas().info() if p["user_api"] == "blas"]
        return max(1, min(int(count) for count in (cores, *pools)))
    return n_jobs if n_jobs > 0 else max(1, cores + 1 + n_jobs)


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
        query = stage.query
        if stage.noise.private:
            with quietly():
                return stage.noise.release(query, self.total(query, private=True))
        value = self._sum(query, query)
        if value is None:
            raise ValueError("Found array with 0 sample(s): there are no rows to fit")
        return stage.noise.release(query, value)

    def total(self, query: Any, private: bool) -> Any:
        """The sum of a query, without noise; over no rows it is zero. Secret.

        ``private``: records that contribute anything but finite numbers are left out.
        """
        with quietly():
            value = self._sum(query, query)
            # What is not finite stays so, whatever is added: one look at the end is enough.
            if private and value is not None and not is_finite(value):
                value = self._sum(query, finite_sums(query))
            if value is None:
                # No rows is nothing special to a private fit: the sum over none is zero.
                value = query(Block(np.empty((0, self.rows.n_features))), Scratch())
        return value

    def _sum(self, query: Any, function: Callable[[Block, Scratch], Any]) -> Any:
        """The sum of the function over the blocks that the query looks at; ``None`` if none are."""
        total = RunningSum[Any]()
        viewed = replace(self, rows=self._view(query))
        least = getattr(query, "least_rows", _FEWEST)
        for part in viewed.each(function, query.block_rows, least):
            total.add(part)
        return total.value()


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
