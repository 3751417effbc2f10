"""Checks of constructor parameters, made in ``fit`` before any row is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from .blocks.rounding import LARGEST, SMALLEST
from .tree import Array

__all__ = [
    "check_all_sizes",
    "check_array_shape",
    "check_float",
    "check_int",
    "check_numbers",
    "check_one_start",
    "check_option",
    "check_samples",
    "check_sizes",
]


def check_int(name: str, value: Any, low: int) -> int:
    """An integer of at least ``low``."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    return int(value)


def check_samples(n_samples: Any) -> int:
    """How many records to draw."""
    try:
        return check_int("n_samples", n_samples, 1)
    except ValueError as error:
        raise ValueError(f"Invalid value for 'n_samples': {error}") from None


def check_float(name: str, value: Any, low: float, strict: bool = False) -> float:
    """A finite number of at least (or, if strict, above) ``low``."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {value!r}")
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
