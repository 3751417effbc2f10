"""Arithmetic on statistics: frozen dataclasses whose fields are arrays.

A statistic is a record of named sums. Everything the library does to one (add two of them, lay
them out as a single vector, keep an error-free running total) treats it as a flat list of leaves,
so it is written once, here. A field may be ``None``: an optional sum that was not asked for.

:class:`Scratch` is working memory that every block reuses, so that a pass allocates nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
T = TypeVar("T")


def _fields(tree: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(tree):
        yield field.name, getattr(tree, field.name)


def leaves(tree: Any) -> dict[str, Array]:
    """The arrays of a statistic by field name, in the order of declaration."""
    return {
        name: np.asarray(value, dtype=np.float64)
        for name, value in _fields(tree)
        if value is not None
    }


def map_leaves(function: Callable[..., Any], tree: T, *others: T) -> T:
    """Apply ``function`` leaf by leaf to statistics of the same kind."""
    changed = {
        name: None if value is None else function(value, *(getattr(o, name) for o in others))
        for name, value in _fields(tree)
    }
    return dataclasses.replace(tree, **changed)  # type: ignore[type-var]


def add(first: T, second: T) -> T:
    """The sum of two statistics: sums over disjoint sets of records add up."""
    return map_leaves(np.add, first, second)


def ravel(tree: Any) -> Array:
    """All leaves as one vector."""
    return np.concatenate([leaf.ravel() for leaf in leaves(tree).values()])


def unravel(like: T, vector: Array) -> T:
    """The inverse of :func:`ravel`; ``like`` gives kind and shapes."""
    pieces, at = {}, 0
    for name, leaf in leaves(like).items():
        pieces[name] = vector[at : at + leaf.size].reshape(leaf.shape)
        at += leaf.size
    if at != vector.size:
        raise ValueError(f"expected a vector of {at} numbers, got {vector.size}")
    return dataclasses.replace(like, **pieces)  # type: ignore[type-var]


class RunningSum(Generic[T]):
    """A running total that keeps track of its rounding errors (Knuth's TwoSum).

    The result is as if the block sums had been added in twice the precision and rounded once. So
    the number and order of blocks does not matter to the last few bits, and the error bound of a
    private release (``docs/proofs/release.md``, section 3) holds however the work was split over
    threads.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Count:
    ...     n: float
    >>> total = RunningSum()
    >>> for x in (1e100, 1.0, -1e100):
    ...     total.add(Count(x))
    >>> float(total.value().n)
    1.0
    """

    def __init__(self) -> None:
        self._like: T | None = None
        self._sums: list[tuple[str, Array, Array]] = []

    def add(self, item: T) -> None:
        """Add one block's statistic."""
        if self._like is None:
            self._like = item
            self._sums = [
                (name, np.array(leaf), np.zeros(leaf.shape)) for name, leaf in leaves(item).items()
            ]
            return
        # Written out on plain arrays: this runs once per block, beside a kernel of microseconds.
        with np.errstate(invalid="ignore"):
            for name, high, low in self._sums:
                leaf = getattr(item, name)
                total = high + leaf
                seen = total - high
                error = (high - (total - seen)) + (leaf - seen)
                # An infinite sum has no rounding error to speak of: keep the infinity.
                low += error if np.isfinite(error).all() else np.where(np.isfinite(total), error, 0)
                high[...] = total

    def value(self) -> T | None:
        """The total so far; ``None`` before the first block."""
        if self._like is None:
            return None
        sums = {name: high + low for name, high, low in self._sums}
        return dataclasses.replace(self._like, **sums)  # type: ignore[type-var]


@contextmanager
def short_buffers() -> Iterator[None]:
    """Let NumPy broadcast along rows shorter than 8192 without copying them to a buffer first.

    Measured: a pass over a tile with one number per row, or per column, is twice as fast. No result
    changes by a bit. The setting belongs to the thread.
    """
    before = np.setbufsize(256)
    try:
        yield
    finally:
        np.setbufsize(before)


class Scratch:
    """Named float64 buffers, grown on demand. One per thread: contents are overwritten freely.

    Examples
    --------
    >>> scratch = Scratch()
    >>> a = scratch.take("a", (2, 3))
    >>> b = scratch.take("a", (3, 2))
    >>> np.shares_memory(a, b)
    True
    """

    def __init__(self) -> None:
        self._buffers: dict[str, Array] = {}

    def take(self, name: str, shape: tuple[int, ...]) -> Array:
        """An uninitialised array of this shape, valid until the name is asked for again."""
        size = prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.size < size:
            buffer = self._buffers[name] = np.empty(size)
        return buffer[:size].reshape(shape)
