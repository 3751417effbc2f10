"""What a fit is given: rows, who they belong to, and whoever answers for them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ..core import Source

Statement = TypeVar("Statement")


@dataclass(frozen=True)
class People:
    """The unit of privacy and how many there are.

    ``count`` is ``None`` where rows are streamed and nobody has counted them.
    """

    unit: str
    count: int | None
    weighted: bool
    sign: Callable[[Any], Any] | None = None
    """What a source adds to the statement of a fit: a federation says who could learn what."""

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
        """The statement of a fit that has ended, with what the source adds to it."""
        return statement if self.sign is None else self.sign(statement)


@dataclass(frozen=True)
class Table:
    """Rows as a fit sees them, whatever they came from.

    A fit asks for sums (:meth:`source`). Single rows may be read only where ``single_rows`` says
    so: those of a federation stay with its parties.
    """

    rows: Any
    """What knows the columns: ``n_features`` and ``names``; and, if ``single_rows``, ``blocks``."""
    people: People
    answer: Callable[[int | None], Source]
    single_rows: bool = True

    def source(self, n_jobs: int | None) -> Source:
        """Whoever answers stages about these rows; ``n_jobs`` threads, where they are ours."""
        return self.answer(n_jobs)
