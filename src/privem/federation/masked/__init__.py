"""Sums that nobody sees the parts of: secure aggregation by double masking over Z_{2^64}.

Integers only; it knows nothing of EM. The terms (`Scheme`) are public and the same everywhere::

    roster = Roster("trial", {"a": key_a, "b": key_b, "c": key_c})  # fixed at creation
    scheme = Scheme.of(roster, threshold=3)

The server's side is a generator: it yields messages by party id and is sent the replies by party
id (a party that is missing has dropped out)::

    masked_sum(scheme, run, round_number, size, attempt=0, patience=1)
        -> (sum modulo 2^64 as uint64, sorted ids of the parties counted); raises TooFewParties

A party's side answers one message at a time (five a round) and raises `Refused` otherwise::

    party = MaskedParty(identity, scheme, run)
    reply = party.handle(message, contribution)  # contribution() -> size integers, uint64 or int64
    party.state()  # bytes; store them (secret!) before the reply leaves
    MaskedParty.from_state(identity, scheme, state)

``run`` is bytes (at most 64), one per fit; ``round_number`` grows within a run. ``contribution`` is
called once a round, in its third message; its answer is kept, so that another ``attempt`` at the
same round (after TooFewParties) sums the same integers. A party that has opened its shares in a
round refuses further attempts at it: no two sums over different survivors come out of one round.
`sum_in_process` runs both sides here, for tests and simulations.

The protocol and the argument why it is safe: ``docs/proofs/masked.md``.
"""

from .errors import Refused, TooFewParties
from .keys import Identity, Roster
from .party import MaskedParty
from .scheme import Scheme
from .server import masked_sum, sum_in_process

__all__ = [
    "Identity",
    "MaskedParty",
    "Refused",
    "Roster",
    "Scheme",
    "TooFewParties",
    "masked_sum",
    "sum_in_process",
]
