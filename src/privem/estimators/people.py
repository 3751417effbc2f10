"""Who rows belong to: the unit of privacy."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["People"]


@dataclass(frozen=True)
class People:
    """The unit of privacy and how many there are.

    ``count`` is ``None`` where rows are streamed and nobody has counted them.
    """

    unit: str
    count: int | None
    weighted: bool
    parties: str = ""
    """Of a federation: who can learn what."""

    def public_count(self, neighbours: str) -> float | None:
        """The number that is public knowledge: when one is replaced, never when weighted."""
        if neighbours == "replace-one" and not self.weighted and self.count is not None:
            return float(self.count)
        return None

    def public(self, neighbours: str) -> dict[str, str]:
        """What the statement lists as public."""
        count = self.public_count(neighbours)
        return {} if count is None else {f"number of {self.unit}s": f"{int(count)}"}
