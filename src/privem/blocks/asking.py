"""How the stages of a gradient fit are asked: of everyone, of a cell each, of devices."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from ..budget import Allowance, Part
from ..core import Release, Stage
from ..noise.discrete import Discrete
from .cells import Cell

__all__ = ["Asking"]


@dataclass(frozen=True)
class Asking:
    """Turns queries into stages.

    Parameters
    ----------
    count : float
        Number of records, public or released.
    rows : float
        A bound on it, for the floating-point error.
    allowance : Allowance
    local : bool
        Noise is each person's own; every stage then has a cell, and costs the whole budget.
    """

    count: float
    rows: float
    allowance: Allowance
    local: bool = False

    @staticmethod
    def local_parts(sizes: list[int]) -> list[Part]:
        """The budget where everyone answers one stage: whichever it is, all of it."""
        return [Part("message", 1.0, [("gaussian", max(sizes))])]

    def records(self, cell: Cell | None) -> float:
        """How many records a stage is about, as far as anybody knows."""
        return self.count if cell is None else self.count / cell.count

    def ask(
        self, query: Any, part: str, name: str, cell: Cell | None = None, releases: int = 1
    ) -> Generator[Stage, Release[Any], Release[Any]]:
        """One stage; ``releases`` divides the part's share among so many."""
        if cell is not None:
            query = replace(query, cell=cell)
        if self.local:
            multiplier = self.allowance.multiplier("message")
            noise = Discrete(multiplier, "replace-one", 1.0, self.allowance.entropy)
        else:
            noise = self.allowance.noise(part, self.rows, releases)
        return (yield Stage(query, noise, name))
