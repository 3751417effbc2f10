"""What can go wrong in a masked sum."""

from __future__ import annotations

__all__ = ["Refused", "TooFewParties"]


class Refused(ValueError):
    """A message that does not belong here: malformed, unsigned, stale, contradictory.

    Whoever raises it has revealed nothing and is in the state it was in before the message.
    """


class TooFewParties(RuntimeError):
    """Fewer parties answered than are needed: the sum stays closed."""
