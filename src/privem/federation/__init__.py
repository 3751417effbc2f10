"""Fits over several holders of rows: nobody shows rows, and the server learns no party's sums.

``Federation([...])`` takes the place of data in every estimator's ``fit``. Guide:
``docs/federation.md``; why it is safe: ``docs/proofs/federation.md`` and ``docs/proofs/masked.md``.
Names are loaded when first used, so that the command line can list protections at once.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .agreement import Agreement as Agreement
    from .agreement import Card as Card
    from .errors import FederationError as FederationError
    from .errors import PartyRefused as PartyRefused
    from .errors import TooFewParties as TooFewParties
    from .party.party import Party as Party
    from .server.conversation import InProcess as InProcess
    from .server.conversation import Transport as Transport
    from .server.federation import Federation as Federation
    from .server.journal import Journal as Journal
else:
    _HOMES = {
        "agreement": ("Agreement", "Card"),
        "errors": ("FederationError", "PartyRefused", "TooFewParties"),
        "party.party": ("Party",),
        "server.conversation": ("InProcess", "Transport"),
        "server.federation": ("Federation",),
        "server.journal": ("Journal",),
    }
    __all__ = sorted(name for names in _HOMES.values() for name in names)

    def __getattr__(name):
        """Load a public name at its first use."""
        from importlib import import_module

        for home, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
