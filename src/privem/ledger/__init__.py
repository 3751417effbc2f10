"""The budget of a data set over all that is ever released about it.

:class:`Ledger` keeps it in a database; ``ledger=`` of estimators, ``private_mean`` and private
scores spends from it. The arithmetic is in :mod:`privem.ledger.filter`, and proved in
``docs/proofs/ledger.md``; the rows are in :mod:`privem.ledger.chain`, the database in
:mod:`privem.ledger.store`.
"""

from .budget import Budget, LedgerError, WrongRelation
from .entry import Asked, Entry
from .ledger import Ledger, Record, Verified, open_ledger

__all__ = [
    "Asked",
    "Budget",
    "Entry",
    "Ledger",
    "LedgerError",
    "Record",
    "Verified",
    "WrongRelation",
    "open_ledger",
]
