"""What can go wrong in a federation. No message shows anything of anyone's rows."""

from __future__ import annotations


class FederationError(RuntimeError):
    """The federation could not answer; nothing was opened that was not announced."""


class PartyRefused(FederationError):
    """A party would not answer what it was asked."""


class TooFewParties(FederationError):
    """More parties are missing than were declared to drop out: the sum stays closed."""


class OlderState(FederationError):
    """A party answers from an older state than it had: it was restored, or there are two of it."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name!r} has answered more than it remembers: a backup of it was restored, or two "
            "processes answer in its name, one of them from a copied folder. What it has spent "
            "since is in no account there. Stop the copy, or put the latest state back; if that "
            "is lost, let it take part under new keys, with so much less epsilon"
        )


class ServerAway(FederationError):
    """Nothing carries messages between the fit and the parties; what was finished is kept."""


class Unanswerable(ValueError):
    """A party cannot answer, for a reason that may be told."""


class Refused(ValueError):
    """A message of a masked sum, or a sealed box, that is malformed, forged or stale.

    Whoever raises it has revealed nothing and is in the state it was in before the message.
    """
