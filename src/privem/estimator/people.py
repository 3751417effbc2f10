"""Who rows belong to: the unit of privacy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..statement import Statement

if TYPE_CHECKING:
    from ..federation import Federation

__all__ = ["People"]


@dataclass(frozen=True)
class People:
    """The unit of privacy and how many there are.

    ``count`` is ``None`` where rows are streamed and nobody has counted them.
    """

    unit: str
    count: int | None
    weighted: bool
    federation: Federation | None = None
    """Whose parties hold the rows, where any do."""

    def public_count(self, neighbours: str) -> float | None:
        """The number that is public knowledge: when one is replaced, never when weighted."""
        if neighbours == "replace-one" and not self.weighted and self.count is not None:
            return float(self.count)
        return None

    def public(self, neighbours: str) -> dict[str, str]:
        """What the statement lists as public."""
        count = self.public_count(neighbours)
        return {} if count is None else {f"number of {self.unit}s": f"{int(count)}"}

    def signed(self, statement: Statement) -> Statement:
        """The statement of a fit that has ended.

        A federation's says who could learn what, and who took part.
        """
        if self.federation is None:
            return statement
        agreed, present = self.federation.agreement, len(self.federation.present)
        told = statement.shared(agreed.share, present, agreed.colluders)
        return replace(told, parties=self.federation.statement())
