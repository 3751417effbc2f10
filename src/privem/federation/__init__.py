"""Fits over several holders of rows: nobody shows rows, and the server learns no party's sums.

``Federation([...])`` takes the place of data in every estimator's ``fit``. Guide:
``docs/federation.md``; why it is safe: ``docs/proofs/federation.md`` and ``docs/proofs/masked.md``.
"""

from .agreement import Agreement, Card
from .errors import FederationError, PartyRefused, TooFewParties
from .party.party import Party
from .server.federation import Federation
from .server.journal import Journal
from .server.transport import InProcess, Transport

__all__ = [
    "Agreement",
    "Card",
    "Federation",
    "FederationError",
    "InProcess",
    "Journal",
    "Party",
    "PartyRefused",
    "TooFewParties",
    "Transport",
]
