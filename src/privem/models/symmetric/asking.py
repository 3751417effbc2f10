"""How the stages of a gradient fit are asked: of everyone, or of a cell each."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from ...blocks.bounded_sums import Cell
from ...budget import Allowance
from ...core import Release, Stage


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
    """

    count: float
    rows: float
    allowance: Allowance

    def records(self, cell: Cell | None) -> float:
        """How many records a stage is about, as far as anybody knows."""
        return self.count if cell is None else self.count / cell.count

    def batch(self, cells: int) -> float:
        """How many records are really asked, where each answers in one of so many cells.

        On devices everyone answers one stage, and what is released is scaled to the sum over all.
        """
        return self.count / max(cells, self.allowance.rounds)

    def ask(
        self, query: Any, part: str, name: str, cell: Cell | None = None, releases: int = 1
    ) -> Generator[Stage, Release[Any], Release[Any]]:
        """One stage; ``releases`` divides the part's share among so many."""
        if cell is not None:
            query = replace(query, cell=cell)
        return (yield Stage(query, self.allowance.noise(part, self.rows, releases), name))
