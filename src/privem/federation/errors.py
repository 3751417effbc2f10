"""What can go wrong in a federation, by name. No message shows anything of anyone's rows."""

from __future__ import annotations

__all__ = ["FederationError", "PartyRefused", "ServerAway", "TooFewParties"]


class FederationError(RuntimeError):
    """The federation could not answer; nothing was opened that was not announced."""


class PartyRefused(FederationError):
    """A party would not answer what it was asked."""


class TooFewParties(FederationError):
    """More parties are missing than were declared to drop out."""


class ServerAway(FederationError):
    """Nothing carries messages between the fit and the parties; what was finished is kept."""
