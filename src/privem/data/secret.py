"""The one place where a private query meets rows: nothing is heard of them, all sums are finite.

A record may hold anything: NaN, infinities, 1e308. Queries pull records into public regions, and
their proofs say that what comes out is finite and bounded (``docs/proofs/release.md``, section 11).
Here it is made sure of, whatever the query: NumPy is held to silence, since a warning about one
record's arithmetic would be a release, and a record whose contribution is not finite counts as
zero. Zero is within every bound on contributions, so sensitivities hold; the records beside it in
a block lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import Block, Scratch
from ..tree import Array, RunningSum, ravel

__all__ = ["contributions", "finite_sums", "is_finite", "quietly"]


def quietly() -> np.errstate:
    """Arithmetic without warnings or errors, whatever the caller's ``np.seterr`` says."""
    return np.errstate(all="ignore")


def finite_sums(query: Any) -> Callable[[Block, Scratch], Any]:
    """The query, with records that contribute anything but finite numbers left out of its sums."""

    def sums(block: Block, scratch: Scratch) -> Any:
        whole = query(block, scratch)
        if is_finite(whole):
            return whole
        total = RunningSum[Any]()
        total.add(query(Block(block.X[:0]), scratch))
        for i in range(len(block.X)):
            weight = None if block.weight is None else block.weight[i : i + 1]
            one = query(Block(block.X[i : i + 1], weight), scratch)
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
