"""A party's run: the key it gives, the chains it begins with its peers, rounds taken from them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .errors import Refused
from .masks import Pair, RoundSecrets, next_on_chain
from .messages import Phase, Reply, table
from .primitives import (
    KEY_BYTES,
    agree,
    agreement_key,
    derive,
    prf,
    public_bytes,
    seal_box,
    tag_key,
)
from .roster import Identity
from .scheme import Scheme, round_context
from .state import Round, Session

__all__ = ["Run"]


@dataclass(frozen=True)
class Run:
    """What a party of a run is, and how it comes to the run's and the rounds' secrets."""

    identity: Identity
    scheme: Scheme
    me: int
    context: bytes
    """Of the run."""

    def begin(self, asked: bytes, server: bytes, secret: bytes) -> Session:
        """Make the key that chains with peers begin with, for this key of the server.

        If there was another before, it was altered on the way, or is now: the party's own stays.
        """
        key = agreement_key(self._agreement_secret(secret))
        bare = Reply(Phase.KEYS, self.me, self.context, public_bytes(key) + server)
        reply = bare.sealed(self.identity.sign(bare.signed_part()))
        return Session(asked, reply, secret, server, tag_key(key, server, self.context, self.me))

    def _agreement_secret(self, secret: bytes) -> bytes:
        return prf(secret, b"agreement key", self.context)

    def with_peers(self, session: Session, rows: Mapping[int, bytes]) -> Session:
        """Begin the chains with all peers, whose keys they have signed themselves."""
        digest = hashlib.sha256(table(rows)).digest()
        if session.table:
            if digest != session.table:
                raise Refused("other keys of peers than before")
            return session
        key = agreement_key(self._agreement_secret(session.secret))
        chains = {self.me: prf(session.secret, b"own chain", self.context)}
        for peer, row in rows.items():
            public, signature = row[:KEY_BYTES], row[KEY_BYTES:]
            reply = Reply(Phase.KEYS, peer, self.context, public + session.server)
            self.scheme.roster.verify(peer, signature, reply.signed_part())
            low, high = sorted((self.me, peer))
            label = b"chain" + low.to_bytes(4, "little") + high.to_bytes(4, "little")
            chains[peer] = derive(agree(key, public), self.context, label)
        return replace(session, secret=b"", table=digest, chains=chains)

    def prepare(self, session: Session, number: int) -> tuple[Session, Round]:
        """Take a round's secrets from the chains, and step on."""
        chains = session.chains
        for _ in range(session.at, number):
            chains = {i: next_on_chain(place) for i, place in chains.items()}
        context = round_context(self.context, number)
        pairs = {i: Pair.at(place, context) for i, place in chains.items() if i != self.me}
        secret = RoundSecrets.at(chains[self.me], context).secret
        after = {i: next_on_chain(place) for i, place in chains.items()}
        return replace(session, chains=after, at=number + 1), Round(number, secret, pairs)

    def shares(self, now: Round) -> bytes:
        """Write what a party shares out: the same bytes however often they are asked for."""
        context = round_context(self.context, now.number)
        secrets = RoundSecrets(now.secret, context)
        shares = secrets.shares(self.scheme.quorum, now.pairs)
        pads = secrets.pads(now.pairs)
        rows = {
            peer: seal_box(pair.box, shares[peer], context, self.me) + pads[peer]
            for peer, pair in now.pairs.items()
        }
        return secrets.commitments() + table(rows)
