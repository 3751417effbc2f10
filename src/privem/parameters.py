"""Checks of parameters, made in ``fit`` before any row is read, and what ``bounds`` mean.

:func:`region_of` makes a region of bounds that were given. :class:`Wanted` says which bounds nobody
gave, and :class:`BoundsNotFound` that a fit could not find them (:mod:`privem.bounds`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .blocks.region import Region
from .data.values import for_columns
from .linalg import LARGEST, SMALLEST, Array

# What messages call a target.
TARGET = "the target"


def said(value: Any) -> str:
    """A value as an error shows it; of what may hold records, only what it is.

    Examples
    --------
    >>> said("a"), said(0.5), said([1, 2])
    ("'a'", '0.5', 'a list')
    """
    if value is None or isinstance(value, str | Real):
        return repr(value)
    return f"a {type(value).__name__}"


def check_int(name: str, value: Any, low: int) -> int:
    """An integer of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {said(value)}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    return int(value)


def check_jobs(n_jobs: Any) -> None:
    """A number of threads, as scikit-learn counts them."""
    if n_jobs is not None and check_int("n_jobs", n_jobs, -(2**31)) == 0:
        raise ValueError(
            "n_jobs=0 is no number of threads: give one, -1 for every core, -2 for every core but "
            "one, or None for as many as BLAS may use"
        )


def check_samples(n_samples: Any) -> int:
    """How many records to draw."""
    try:
        return check_int("n_samples", n_samples, 1)
    except ValueError as error:
        raise ValueError(f"Invalid value for 'n_samples': {error}") from None


def check_float(name: str, value: Any, low: float, strict: bool = False) -> float:
    """A finite number of at least (or, if strict, above) ``low``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {said(value)}")
    number = float(value)
    if not math.isfinite(number) or number < low or (strict and number == low):
        least = f"{'above' if strict else 'at least'} {low}"
        finite = "" if math.isfinite(number) else " and finite"
        raise ValueError(f"{name} must be {least}{finite}, got {value}")
    return number


def check_one_start(n_init: Any) -> None:
    """A private fit has one start."""
    if n_init > 1:
        raise ValueError(
            "a private fit cannot use n_init > 1: choosing the best of several fits would read "
            "the data again; or fit with epsilon=None"
        )


def check_option(name: str, value: Any, options: Sequence[Any]) -> None:
    """One of a few words."""
    if not any(value is option or value == option for option in options):
        words = ", ".join(repr(option) for option in options)
        raise ValueError(f"{name} must be one of {words}; got {value!r}")


def check_numbers(name: str, value: Any) -> Array:
    """An array of any shape."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"{name} must be an array of numbers, got {type(value).__name__}"
        ) from None


def check_array_shape(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """A finite array of exactly this shape."""
    array = check_numbers(name, value)
    if array.shape != shape:
        raise ValueError(f"{name} should have the shape of {shape}, but got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite")
    return array


# Not numbers that sums over records are computed with.
_UNBOUNDED = ("epsilon", "delta", "categories", "random_state")


def check_sizes(name: str, value: Any, least: float = SMALLEST) -> None:
    """Numbers whose products with each other and with records stay within double precision."""
    size = np.abs(np.asarray(value, dtype=np.float64))
    if not ((size >= least) & (size <= LARGEST)).all():
        low = f"between {least:.2g} and" if least else "at most"
        raise ValueError(
            f"{name}: a private fit computes with numbers of a size {low} {LARGEST:.2g}; beyond, "
            "sums over records would overflow or vanish. Use another unit of measurement"
        )


# Starts compare all pairs of components, after the first releases: memory must not end there.
_MOST_COMPONENTS = 4096


def check_all_sizes(parameters: Mapping[str, Any]) -> None:
    """Refuse numbers among the parameters of a private fit that are too large to compute with.

    What else is wrong with a parameter, its own check says.
    """
    for name, value in parameters.items():
        many = name in ("n_clusters", "n_components") and isinstance(value, Integral)
        if many and value > _MOST_COMPONENTS:
            raise ValueError(f"{name}: a private fit has at most {_MOST_COMPONENTS}, got {value}")
        if name in _UNBOUNDED or value is None or isinstance(value, str | bool | Mapping):
            continue
        try:
            numbers = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            continue
        if np.isfinite(numbers).all():
            check_sizes(name, numbers, least=0.0)


def in_order(bounds: Any, names: Sequence[Any] | NDArray[Any] | None) -> Any:
    """Bounds by column name as ``(low, high)``, in the order of the columns; others as they are.

    Examples
    --------
    >>> in_order({"age": (0, 120), "height": (0.5, 2.5)}, ["height", "age"])
    (array([0.5, 0. ]), array([  2.5, 120. ]))
    """
    if not isinstance(bounds, Mapping):
        return bounds
    given = for_columns("bounds", bounds, names, "(low, high)")
    pairs = [_pair(name, pair) for name, pair in given.items()]
    return np.array([low for low, _ in pairs]), np.array([high for _, high in pairs])


def _pair(name: str, pair: Any) -> tuple[float, float]:
    try:
        low, high = (float(side) for side in pair)
    except (TypeError, ValueError):
        raise ValueError(f"bounds of {name!r} must be (low, high), got {pair!r}") from None
    if not low < high:
        raise ValueError(f"bounds of {name!r} are ({low:g}, {high:g}): low must be below high")
    return low, high


def is_ball(bounds: Any) -> bool:
    """Whether bounds are the radius of a ball."""
    several = bounds is None or isinstance(bounds, Mapping | tuple | list)
    return not several and np.ndim(bounds) == 0


def region_of(bounds: Any, d: int | None, isotropic: bool = False) -> Region | None:
    """The region that bounds mean, checked; ``d=None`` before there are data."""
    if bounds is None:
        return None
    if isinstance(bounds, Mapping):
        bounds = in_order(bounds, list(bounds))
    _refuse_pairs(bounds, d)
    if d is None:
        several = isinstance(bounds, tuple | list) or np.ndim(bounds) > 0
        sides = bounds if several else (bounds,)
        d = max((np.size(side) for side in sides), default=1)
    if is_ball(bounds):
        radius = check_float("bounds", bounds, 0.0, strict=True)
        check_sizes("bounds", radius)
        return Region.around_origin(radius, d)
    try:
        low, high = bounds
        low = np.broadcast_to(np.asarray(low, dtype=np.float64), (d,))
        high = np.broadcast_to(np.asarray(high, dtype=np.float64), (d,))
    except (TypeError, ValueError):
        raise ValueError(
            f"bounds must be (low, high), each a number or one per feature ({d} of them), "
            "or a single number: the radius of a ball about the origin. Columns from 0 to 9 and "
            "from 1 to 5 have bounds=([0, 1], [9, 5]); by name, {'a': (0, 9), 'b': (1, 5)}"
        ) from None
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        raise ValueError("bounds must be finite")
    if d == 2:
        _refuse_two_readings(bounds, low, high)
    bad = np.flatnonzero(high <= low)
    if len(bad):
        j = int(bad[0])
        raise ValueError(
            f"bounds of feature {j} are ({low[j]:g}, {high[j]:g}): low must be below high"
        )
    check_sizes("bounds", (low, high), least=0.0)
    check_sizes("half the width of bounds", (high - low) / 2)
    return Region.box(low, high, isotropic)


def _refuse_pairs(bounds: Any, d: int | None) -> None:
    """A pair for each feature, unless there are two: a usual way to write bounds, but not ours."""
    try:
        shape = np.shape(bounds)
    except ValueError:  # sides of different lengths
        return
    if len(shape) != 2 or shape[1] != 2 or shape[0] == 2:
        return
    features = "" if d is None else f" for {d} feature{'s' * (d != 1)}"
    raise ValueError(
        f"bounds: got {shape[0]} pairs{features}; write ([lows], [highs]), a tuple of two lists,"
        " or a dict by column name, {'a': (low, high), ...}"
    )


def _refuse_two_readings(bounds: Any, low: Array, high: Array) -> None:
    """Four numbers may be two lows and two highs, or two pairs: never guess.

    What is written as documented, a tuple of two lists (or arrays), is (low, high) if it can be.
    All else, tuples inside or a list outside, is refused where it makes sense as a pair for each
    feature and the two readings differ.
    """
    written = (
        isinstance(bounds, tuple) and not any(isinstance(side, tuple) for side in bounds)
    ) or (isinstance(bounds, list) and all(isinstance(side, np.ndarray) for side in bounds))
    pairs = low[0] < low[1] and high[0] < high[1]
    if not pairs or low[1] == high[0] or (written and (low < high).all()):
        return
    a, b, c, d = (f"{value:g}" for value in (*low, *high))
    raise ValueError(
        f"bounds=[({a}, {b}), ({c}, {d})] can be read in two ways. As (low, high), the features go "
        f"from {a} to {c} and from {b} to {d}; as a pair for each feature, from {a} to {b} and "
        f"from {c} to {d}. Say which: bounds=([low, low], [high, high]), a tuple of two lists, or "
        "by column name, bounds={'first': (low, high), 'second': (low, high)}"
    )


class BoundsNotFound(ValueError):
    """A private fit has stopped: bounds or categories that nobody gave could not be found.

    It says so from what was released, and has released nothing else.

    Parameters
    ----------
    message : str
    columns : tuple of str
        Those without bounds or categories.
    spent, delta : float
        What the releases so far cost: epsilon, at delta.

    Examples
    --------
    >>> import numpy as np
    >>> import privem
    >>> try:
    ...     privem.KMeans(2).fit(np.random.default_rng(0).normal(size=(300, 2)))
    ... except privem.BoundsNotFound as problem:
    ...     problem.columns, 0 < problem.spent < 0.1
    (('0', '1'), True)
    """

    def __init__(
        self,
        message: str,
        columns: tuple[str, ...] = (),
        spent: float = math.nan,
        delta: float = math.nan,
    ) -> None:
        super().__init__(message)
        self.columns, self.spent, self.delta = columns, spent, delta

    def costing(self, spent: float, delta: float) -> BoundsNotFound:
        """The same, and what it cost."""
        cost = (
            f"what was released so far cost epsilon = {spent:.4g} at delta = {delta:g}, and what "
            "another fit costs adds to both"
            if spent > 0
            else "nothing was released"
        )
        return type(self)(f"{self}. The fit has stopped; {cost}", self.columns, spent, delta)


@dataclass(frozen=True)
class Wanted:
    """What bounds are for; all of it is public.

    Parameters
    ----------
    columns : sequence of str
        A name for each column, or for each part of the columns.
    found : sequence of bool
        Which of them have to be found.
    records : float
        How many there are.
    weighted : bool
        Whether that is a sum of weights, which does not tell.
    rows : float
        A bound on their number.
    excess : float
        How many times the noise that is charged sums have.
    noun : str
        What messages say before the names.
    give : str
        The parameter that would have said it.
    """

    columns: Sequence[str]
    found: Sequence[bool]
    records: float
    weighted: bool
    rows: float
    excess: float = 1.0
    noun: str = "column"
    give: str = "bounds="

    def missing(self, lacks: NDArray[np.bool_]) -> tuple[str, ...]:
        """Those columns that have to be found and lack something."""
        each = zip(self.columns, self.found, lacks, strict=True)
        return tuple(name for name, wanted, lacking in each if wanted and lacking)

    def instead(self, columns: Sequence[str]) -> str:
        """What to do where some of them are not found."""
        give = [] if list(columns) == [TARGET] else [self.give]
        give += ["target_bounds="] if TARGET in columns else []
        return f"give {' and '.join(give)}, or use more records or a larger epsilon"

    def named(self, columns: Sequence[str]) -> str:
        """Some of them, for a message."""
        noun = f"{self.noun}{'s' * (len(columns) > 1)} " if self.noun else ""
        more = f" and {len(columns) - 10} more" * (len(columns) > 10)
        return noun + ", ".join(columns[:10]) + more
