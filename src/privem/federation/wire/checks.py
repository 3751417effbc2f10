"""What checks of questions have in common: shapes, magnitudes, regions.

A question arrives from a server that a party does not trust, and its sensitivity is derived beside
its code under conditions that a plan always meets and a forged message need not.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...blocks.cells import Cell
from ...blocks.region import Region
from ...blocks.rounding import LARGEST, SMALLEST
from ...blocks.sensitivity import MomentWeights
from .codec import MAX_BYTES, BadMessage

__all__ = [
    "MOST_NUMBERS",
    "array",
    "cell",
    "held",
    "magnitudes",
    "moment_weights",
    "need",
    "number",
    "ordinary",
    "region",
    "table",
]

# More than any plan asks for, and few enough to hold.
MOST_NUMBERS = 2**22
# What a party computes at a time for each thread, a number for each component of each of a block's
# rows: at most 25 bytes each, so some 400 MiB. And what it may be asked for: what a message holds
# beside what is around the numbers.
_MOST_AT_A_TIME, _MOST_SUMS = 2**24, (MAX_BYTES - 2**20) // 8
_MOST_CELLS = 2**20


def need(condition: Any) -> None:
    """Refuse the question unless this holds."""
    if not bool(condition):
        raise BadMessage("the question does not meet the conditions of its own proof")


def array(value: Any, shape: tuple[int, ...]) -> None:
    """Doubles of this shape; that they are finite, the codec has seen to."""
    need(isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == shape)


def table(value: Any, columns: int) -> None:
    """At least one row of so many doubles."""
    need(isinstance(value, np.ndarray) and value.ndim == 2 and len(value) > 0)
    array(value, (len(value), columns))


def held(components: int, rows: int, sums: int) -> None:
    """Refuse what a party could not hold, before any of it is made.

    Parameters
    ----------
    components : int
        Of a mixture, clusters, classes.
    rows : int
        Of a block: each has a number for each component.
    sums : int
        How many numbers are asked for.
    """
    if components * rows > _MOST_AT_A_TIME or sums >= _MOST_SUMS:
        raise BadMessage(
            f"the question has {components} components and asks for {sums} numbers, more than a "
            f"party computes at a time: {_MOST_AT_A_TIME // rows} components, {_MOST_SUMS} numbers"
        )


def number(value: Any, low: float, strict: bool = False) -> None:
    """A finite number not below (``strict``: above) ``low``."""
    need(type(value) in (float, int) and math.isfinite(value))
    need(value > low if strict else value >= low)


def ordinary(value: Any, zero: bool = False) -> None:
    """A positive number (or zero, if that may be) of a magnitude whose powers are numbers too."""
    number(value, 0.0)
    need(SMALLEST <= value <= LARGEST or (zero and value == 0))


def magnitudes(value: Any, positive: bool = False) -> None:
    """No entry of an array is larger than ordinary numbers are; nor smaller, if all are."""
    need((np.abs(value) <= LARGEST).all())
    need(not positive or (value >= SMALLEST).all())


def region(value: Any, d: int, data: bool = False) -> None:
    """A region of d columns. ``data``: records are used in the data's coordinates as well."""
    need(isinstance(value, Region) and isinstance(value.ball, bool))
    for part in (value.centre, value.scale, value.limit):
        array(part, (d,))
    need((value.scale > 0).all() and (value.limit >= 0).all())
    ordinary(float(value.limit.max()))
    if value.ball:  # about the origin, as all that plans use are
        need((value.limit == 1).all())
        need(not value.centre.any() and (value.scale == value.scale[0]).all())
    if data:
        magnitudes(value.centre)
        magnitudes(value.scale, positive=True)


def moment_weights(value: Any) -> None:
    """Weights of moments and the radius they are for."""
    need(isinstance(value, MomentWeights))
    for part in (value.w0, value.w1, value.w2):
        ordinary(part, zero=True)
    ordinary(value.radius)


def cell(value: Any, private: bool) -> None:
    """No cell, or one of a partition; a party sees to it that a run has one partition."""
    if value is None:
        return
    need(private and isinstance(value, Cell))
    need(type(value.index) is int and type(value.count) is int)
    need(0 <= value.index < value.count <= _MOST_CELLS)
