"""Conditions under which a query's bounds hold: what a party checks before it answers.

A query reaches a party from a server that the party does not trust. Its sensitivity is derived
beside its code under conditions (a radius that covers the region, positive scales, matching
shapes) which a plan always meets and a forged message need not. Every query that may travel
states them in its method ``check(d, private)``, with the functions below.

Types are checked before that, against the annotations of the fields
(:func:`privem.federation.wire.queries.check_query`), so these functions speak of values only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..linalg import LARGEST, SMALLEST, Array

# More than any plan asks for, and few enough to hold.
MOST_NUMBERS = 2**22
# What a party computes at a time for each thread, a number for each component of each of a block's
# rows: at most 25 bytes each, so some 400 MiB. And what it may be asked for: as many numbers as fit
# into a message.
MOST_AT_A_TIME, MOST_SUMS = 2**24, 2**23 - 2**17


class Unsound(ValueError):
    """A query that does not meet its own conditions."""


def need(condition: Any) -> None:
    """Refuse the query unless this holds."""
    if not bool(condition):
        raise Unsound("the question does not meet the conditions of its own proof")


def shaped(shape: tuple[int, ...], *arrays: Array) -> None:
    """Arrays have this shape."""
    need(all(array.shape == shape for array in arrays))


def table(array: Array, columns: int) -> None:
    """At least one row of so many numbers."""
    need(array.ndim == 2 and len(array) > 0 and array.shape[1] == columns)


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
    if components * rows > MOST_AT_A_TIME or sums >= MOST_SUMS:
        raise Unsound(
            f"the question has {components} components and asks for {sums} numbers, more than a "
            f"party computes at a time: {MOST_AT_A_TIME // rows} components, {MOST_SUMS} numbers"
        )


def ordinary(*values: float, zero: bool = False) -> None:
    """Positive numbers (or zero, if that may be) of a magnitude whose powers are numbers too."""
    need(all(SMALLEST <= value <= LARGEST or (zero and value == 0) for value in values))


def magnitudes(*arrays: Array, positive: bool = False) -> None:
    """No entry is larger than ordinary numbers are; nor smaller, if all are positive."""
    need(all((np.abs(array) <= LARGEST).all() for array in arrays))
    need(not positive or all((array >= SMALLEST).all() for array in arrays))
