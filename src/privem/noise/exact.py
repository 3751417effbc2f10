"""No noise: exact, non-private EM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from ..core import Query, Release, Spent

__all__ = ["Exact"]

Statistics = TypeVar("Statistics")


@dataclass(frozen=True)
class Exact:
    """Publishes the sum unchanged. This is not private; ``epsilon=None`` uses it."""

    @property
    def private(self) -> bool:
        """Always false: an exact release is not private."""
        return False

    def price(self, query: Query[Any]) -> tuple[Spent, ...]:
        """An exact release has no finite price."""
        return (Spent("exact", "none", 0, 0.0, 0.0, 0.0, 0),)

    def release(self, query: Query[Statistics], total: Statistics) -> Release[Statistics]:
        """Publish ``total`` unchanged."""
        return Release(query, total)
