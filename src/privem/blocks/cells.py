"""A cell of a random partition: the records one stage sums over, and no other stage."""

from __future__ import annotations

from dataclasses import dataclass

from .conditions import need

__all__ = ["Cell"]


# More than any plan asks for, and few enough to hold.
_MOST = 2**20


@dataclass(frozen=True)
class Cell:
    """The ``index``-th of ``count`` cells.

    Every record draws its cell once per fit, uniformly and independently of all data
    (:mod:`privem.data.sampling`). Stages of different cells therefore concern different people: a
    fit costs each of them the stages about everyone and those of one cell
    (``docs/proofs/gradient.md``, section 4).
    """

    index: int
    count: int
    travels = ("index", "count")

    def check(self, private: bool) -> None:
        """One cell of a partition; a party sees to it that a run has one partition."""
        need(private and 0 <= self.index < self.count <= _MOST)
