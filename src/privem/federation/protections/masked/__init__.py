"""``protection="masked"``: secure aggregation by double masking over Z_{2^64}.

Integers only; it knows nothing of EM. The terms (`Scheme`) are public and the same everywhere::

    roster = Roster("trial", {"a": key_a, "b": key_b, "c": key_c})  # fixed at creation
    scheme = Scheme.of(roster, threshold=3)

The server's side of a sum is a generator: it yields messages by party id and is sent the replies by
party id (a party that is missing has dropped out)::

    server = MaskedSums(scheme, run)
    server.sum(number, size, about)
        -> (sum modulo 2^64 as uint64, sorted ids of the parties counted); raises TooFewParties
    server.state()  # bytes; MaskedSums(scheme, run, state) goes on from them

A party's side answers one message at a time (three a round, two more in the first) and raises
`Refused` otherwise::

    party = MaskedParty(identity, scheme, run)
    reply = party.handle(message, contribution, number, about)
    party.state()  # bytes; store them (secret!) before the reply leaves
    MaskedParty.from_state(identity, scheme, state)

``run`` is bytes (at most 64), one per fit; the ``number`` of a round grows within a run;
``contribution()`` returns ``size`` integers (uint64 or int64) and is called once a round. No two
sums over different survivors come out of one round.

The protocol and the argument why it is safe: ``docs/proofs/masked.md``.
"""

from ...errors import Refused, TooFewParties
from ...primitives import Identity
from .party import MaskedParty
from .protection import PROTECTION
from .scheme import Roster, Scheme
from .server import MaskedSums

__all__ = [
    "PROTECTION",
    "Identity",
    "MaskedParty",
    "MaskedSums",
    "Refused",
    "Roster",
    "Scheme",
    "TooFewParties",
]
