"""Linear algebra: of statistics, of symmetric matrices, and bounds on its floating-point error.

*Statistics* are frozen dataclasses whose fields are arrays: a record of named sums. Everything the
library does to one (add two of them, lay them out as a single vector, keep an error-free running
total) treats it as a flat list of leaves, so it is written once, here. A field may be ``None``: an
optional sum that was not asked for.

*Symmetric matrices* are small and dense, and the algebra is total: finite input gives a valid
answer.

*Bounds* on floating-point error come from public numbers alone (``docs/proofs/release.md``) and
hold as long as nothing overflows. Every number that a private fit is given, and every one that a
party is asked with, is therefore zero or of a size between ``SMALLEST`` and ``LARGEST``: what
queries and plans compute are products of a few of them.

:class:`Scratch` is working memory that every block reuses, so that a pass allocates nothing.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cython_blas
from scipy.linalg.blas import dtrmm
from scipy.linalg.lapack import dtrtri

Array = NDArray[np.float64]
T = TypeVar("T")
U = 2.0**-53
_NOTHING = np.empty(0)
SMALLEST, LARGEST = 2.0**-100, 2.0**100


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
    threads, or over machines whose totals are merged.

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
            # Its numbers are not kept: a total that travels is not to hold them a third time.
            self._like = map_leaves(lambda leaf: _NOTHING, item)
            self._sums = [
                (name, np.array(leaf), np.zeros(leaf.shape)) for name, leaf in leaves(item).items()
            ]
            return
        # Written out on plain arrays: this runs once per block, beside a kernel of microseconds.
        with np.errstate(invalid="ignore"):
            for name, high, low in self._sums:
                low += _carried(high, getattr(item, name))

    def merge(self, other: RunningSum[T]) -> None:
        """Add the total of other blocks, with the rounding errors that it keeps track of."""
        if self._like is None or other._like is None:
            self._like = self._like if other._like is None else other._like
            self._sums = self._sums or [
                (name, high.copy(), low.copy()) for name, high, low in other._sums
            ]
            return
        with np.errstate(invalid="ignore"):
            for (_, high, low), (_, more, rest) in zip(self._sums, other._sums, strict=True):
                low += rest
                low += _carried(high, more)

    def value(self) -> T | None:
        """The total so far; ``None`` before the first block."""
        if self._like is None:
            return None
        sums = {name: high + low for name, high, low in self._sums}
        return dataclasses.replace(self._like, **sums)  # type: ignore[type-var]


def _carried(high: Array, more: Array) -> Array:
    """Add to a sum in place; what the addition has rounded off."""
    total = high + more
    seen = total - high
    error: Array = (high - (total - seen)) + (more - seen)
    high[...] = total
    # An infinite sum has no rounding error to speak of: keep the infinity.
    return error if np.isfinite(error).all() else np.where(np.isfinite(total), error, 0)


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


@lru_cache(maxsize=64)
def symmetric_pairs(d: int) -> tuple[np.ndarray, np.ndarray]:
    """The pairs (i, j) that name each entry of a symmetric d x d matrix once, by circular offset.

    Offset 0 is the diagonal, offset o the pairs (i, i + o mod d). Entries of one offset are the
    elementwise product of a vector with its own rotation, which is how the kernel makes them.
    """
    first, second = [], []
    for offset in range(d // 2 + 1):
        # With d even the last offset meets each pair twice: keep the first half.
        rows = d // 2 if offset and 2 * offset == d else d
        first.append(np.arange(rows))
        second.append((np.arange(rows) + offset) % d)
    i, j = np.concatenate(first), np.concatenate(second)
    i.flags.writeable = j.flags.writeable = False
    return i, j


@lru_cache(maxsize=64)
def symmetric_scale(d: int) -> Array:
    """What :func:`svec` multiplies each entry by: 1 on the diagonal, sqrt 2 off it."""
    i, j = symmetric_pairs(d)
    scale = np.where(i == j, 1.0, np.sqrt(2.0))
    scale.flags.writeable = False
    return scale


@lru_cache(maxsize=64)
def _places(d: int) -> np.ndarray:
    """Where the pairs lie in a matrix that is written row by row."""
    i, j = symmetric_pairs(d)
    return np.asarray(i * d + j)


def symmetric_entries(matrix: Array) -> Array:
    """The distinct entries of symmetric matrices, in the order of :func:`symmetric_pairs`."""
    d = matrix.shape[-1]
    # Measured: half the time of an index of two arrays.
    return np.asarray(matrix.reshape(*matrix.shape[:-2], d * d).take(_places(d), axis=-1))


def svec(matrix: Array) -> Array:
    """Stack the distinct entries of symmetric matrices, off-diagonals times sqrt 2.

    ``svec(A) @ svec(B)`` is the trace of A B, so the Euclidean norm of the vector is the Frobenius
    norm of the matrix: that is what a sensitivity is measured in.
    """
    return symmetric_entries(matrix) * symmetric_scale(matrix.shape[-1])


def smat(vector: Array, d: int) -> Array:
    """The symmetric matrices whose :func:`svec` is ``vector``."""
    i, j = symmetric_pairs(d)
    values = vector / symmetric_scale(d)
    matrix = np.empty((*vector.shape[:-1], d, d))
    matrix[..., i, j] = values
    matrix[..., j, i] = values
    return matrix


def floor_eigenvalues(matrix: Array, floor: Array) -> Array:
    """Raise a symmetric matrix to ``diag(floor)`` or above; leave it alone if it is there.

    Each column has a floor in its own unit, so that columns of very different size keep theirs:
    in coordinates divided by ``sqrt(floor)`` the eigenvalues are raised to one. The test is one
    Cholesky factorisation of ``matrix - diag(floor)/2``: well-behaved matrices keep every bit.
    """
    d = len(matrix)
    matrix = matrix / 2 + matrix.T / 2
    try:
        np.linalg.cholesky(matrix - 0.5 * np.diag(floor))
    except np.linalg.LinAlgError:
        # Beyond 32 digits apart nothing is known, and the quotient below must not overflow.
        root = np.sqrt(np.maximum(floor, 1e-32 * np.max(np.abs(matrix))))
        values, vectors = np.linalg.eigh(matrix / root / root[:, None])
        # The product below errs by eps * largest; the floor must survive that.
        lowest = max(1.0, 8 * d * np.finfo(float).eps * float(values[-1]))
        matrix = ((vectors * np.maximum(values, lowest)) @ vectors.T) * root * root[:, None]
        matrix = matrix / 2 + matrix.T / 2
    return np.asarray(matrix)


def invert_cholesky(matrix: Array) -> Array:
    """The lower triangular W with W A W' = I of a positive definite A, or of each of a stack.

    W x whitens x: :func:`whiten`.
    """
    factors: Array = np.linalg.cholesky(np.asarray(matrix, dtype=np.float64))
    d = factors.shape[-1]
    for factor in factors.reshape(-1, d, d) if factors.size else ():
        # LAPACK's own routine: solve_triangular starts threads even for a 4 x 4 matrix, and waits
        # milliseconds for them where the cores are busy. The transpose, in Fortran's order, is
        # overwritten.
        dtrtri(factor.T, lower=0, overwrite_c=1)
    return factors


def whiten(whitener: Array, x: Array) -> Array:
    """Whiten (d, b) in place; a matrix is lower triangular, a vector scales the axes."""
    if whitener.ndim == 1:
        x *= whitener[:, None]
        return x
    d, b = x.shape
    unlocked = _dtrmm()
    if unlocked is None or not (x.flags.c_contiguous and x.dtype == np.float64 and x.size):
        # x' is Fortran-ordered, so BLAS overwrites it without a copy: x' <- x' W'.
        return np.asarray(dtrmm(1.0, whitener, x.T, side=1, lower=1, trans_a=1, overwrite_b=1)).T
    # Read by columns, W and x are their own transposes.
    matrix = np.ascontiguousarray(whitener, dtype=np.float64)
    rows, columns, one = _by_reference(b, d)
    at, out = matrix.ctypes.data, x.ctypes.data
    unlocked(b"R", b"U", b"N", b"N", rows, columns, one, at, columns, out, rows)
    return x


@lru_cache(maxsize=64)
def _by_reference(rows: int, columns: int) -> tuple[Any, Any, Any]:
    """Numbers as BLAS takes them; kept, as making them takes longer than a small product."""
    numbers = ctypes.c_int(rows), ctypes.c_int(columns), ctypes.c_double(1.0)
    return ctypes.byref(numbers[0]), ctypes.byref(numbers[1]), ctypes.byref(numbers[2])


@lru_cache(maxsize=1)
def _dtrmm() -> Callable[..., None] | None:
    """BLAS's triangular product without the interpreter's lock, which SciPy's own function holds.

    So threads over blocks can whiten at the same time. SciPy exports the address of the routine for
    Cython; where it is not as expected, there is none.
    """
    try:
        capsule = cython_blas.__pyx_capi__["dtrmm"]
        of, to = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
        of.restype, of.argtypes = ctypes.c_char_p, [ctypes.py_object]
        to.restype, to.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        name = of(capsule)
        if not name.startswith(b"void (char *, char *, char *, char *, int *, int *, "):
            return None
        return ctypes.CFUNCTYPE(None, *[ctypes.c_char_p] * 4, *[ctypes.c_void_p] * 7)(
            to(capsule, name)
        )
    except (AttributeError, KeyError, ValueError):
        return None


def gamma(k: float) -> float:
    """Relative error of a sum or product of k rounded terms, in any order (Higham 2002, 3.1)."""
    if k * U >= 0.5:
        return math.inf
    return k * U / (1 - k * U)


def first_largest(values: Array, axis: int, scale: float = 1.0) -> NDArray[np.int64]:
    """Where the largest value stands along an axis: of those that tie, the first.

    Values tie if they differ by a billionth of the largest, or of ``scale`` if that is larger.
    Components that are the same, or points of a grid between two centres, differ by the rounding
    errors of one processor or another, and these must not decide.

    >>> first_largest(np.array([[0.1 + 0.2, 0.3], [0.3, 0.1 + 0.2], [0.1, 0.4]]), 1)
    array([0, 0, 1])
    """
    top = values.max(axis=axis, keepdims=True)
    least = top - 1e-9 * np.maximum(np.abs(top), scale)
    return np.asarray(np.argmax(values >= least, axis=axis), dtype=np.int64)


def positive(vectors: Array) -> Array:
    """Vectors (..., d) with the sign that makes the largest entry of each positive.

    An eigenvector's sign is arbitrary: rounding must not decide.
    """
    largest = np.take_along_axis(
        vectors, np.argmax(np.abs(vectors), axis=-1, keepdims=True), axis=-1
    )
    return np.asarray(vectors * np.where(largest < 0, -1.0, 1.0))
