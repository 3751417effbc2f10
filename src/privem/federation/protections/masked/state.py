"""What a party of masked sums keeps of a run: its keys, chains with peers, and rounds.

All of it is replaced, never changed in place: a copy of the reference is a copy of the memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ...errors import Refused
from ...primitives import (
    KEY_BYTES,
    Identity,
    agree,
    agreement_key,
    derive,
    prf,
    public_bytes,
    seal_box,
    tag_key,
)
from .masks import PAIR_BYTES, Pair, RoundSecrets, next_on_chain, pad
from .messages import CONTEXT_BYTES, Phase, Reader, Reply, set_bytes, table
from .scheme import Scheme, round_context

_MAGIC = b"PVMP\x04"
_SHARES = 64  # Bytes: two shares.


@dataclass(frozen=True)
class Session:
    """What was agreed on when the run began."""

    asked: bytes
    """Digest of the KEYS request."""
    reply: bytes
    """The answer to it."""
    secret: bytes
    """The party's secret of the run; forgotten when all chains have begun."""
    server: bytes
    """The server's key of the run."""
    tags: bytes
    """The key of the tags that the server checks."""
    table: bytes = b""
    """Digest of the peers' keys."""
    chains: Mapping[int, bytes] = field(default_factory=dict)
    """The current key of the chain with each peer, and of the party's own under its own index."""
    at: int = 0
    """The round that the chains have reached."""


@dataclass(frozen=True)
class Round:
    """One round, as far as it has come."""

    number: int
    secret: bytes
    pairs: Mapping[int, Pair]
    context: bytes = b""
    """The context of the sum; empty until the input is due."""
    size: int = 0
    """How many numbers the sum has."""
    held: Mapping[int, bytes] = field(default_factory=dict)
    """Shares of peers' key elements and seed elements."""
    survivors: frozenset[int] = frozenset()
    replies: Mapping[Phase, tuple[bytes, bytes]] = field(default_factory=dict)
    """Digests of requests, and the answers to them."""


@dataclass(frozen=True)
class Memory:
    """Everything a party must not forget. Secret: whoever reads it can take the masks off."""

    run: bytes
    secret: bytes = b""
    """The source of the run's key; moves into the session, once there is one."""
    session: Session | None = None
    round: Round | None = None
    """The round whose input was asked for last."""
    ahead: Round | None = None
    """The round whose shares were sent, while its input has not been asked for."""

    def to_bytes(self, scheme: Scheme) -> bytes:
        """Write it all."""
        parts = [_MAGIC, scheme.session(self.run), _sized(self.run, 1), _sized(self.secret, 1)]
        session = self.session
        if session is not None:
            parts += [session.asked, _sized(session.reply, 4), _sized(session.secret, 1)]
            parts += [session.server, session.tags, _sized(session.table, 1)]
            parts += [table(session.chains), session.at.to_bytes(8, "little")]
            for one in (self.round, self.ahead):
                parts.append(b"\0" if one is None else b"\1" + _write(one, len(scheme.roster)))
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes, scheme: Scheme, me: int) -> Memory:
        """Read what `to_bytes` wrote under the same scheme."""
        reader = Reader(data)
        if reader.take(len(_MAGIC)) != _MAGIC:
            raise Refused("not the state of a party of a masked sum")
        bound = reader.take(CONTEXT_BYTES)
        run = reader.take(reader.number(1))
        if bound != scheme.session(run):
            raise Refused("the state belongs to another federation or to other terms")
        secret = reader.take(reader.number(1))
        if not reader.left():
            return cls(run, secret)
        session = Session(
            reader.take(32),
            reader.take(reader.number(4)),
            reader.take(reader.number(1)),
            reader.take(KEY_BYTES),
            reader.take(KEY_BYTES),
            reader.take(reader.number(1)),
            reader.table(KEY_BYTES, (*scheme.peers[me], me)),
            reader.number(8),
        )
        current, ahead = (_read(reader, scheme, me) if reader.number(1) else None for _ in range(2))
        reader.end()
        return cls(run, secret, session, current, ahead)


def _write(one: Round, n: int) -> bytes:
    pairs = {peer: pair.to_bytes() for peer, pair in one.pairs.items()}
    parts = [one.number.to_bytes(8, "little"), _sized(one.secret, 1), table(pairs)]
    parts += [_sized(one.context, 1), one.size.to_bytes(4, "little")]
    parts += [table(one.held), set_bytes(one.survivors, n)]
    parts.append(len(one.replies).to_bytes(1, "little"))
    for phase, (digest, reply) in one.replies.items():
        parts += [phase.to_bytes(1, "little"), digest, _sized(reply, 4)]
    return b"".join(parts)


def _read(reader: Reader, scheme: Scheme, me: int) -> Round:
    number, secret = reader.number(8), reader.take(reader.number(1))
    pairs = reader.table(PAIR_BYTES, scheme.peers[me])
    return Round(
        number,
        secret,
        {peer: Pair.from_bytes(row) for peer, row in pairs.items()},
        reader.take(reader.number(1)),
        reader.number(4),
        reader.table(_SHARES, scheme.peers[me]),
        reader.members(len(scheme.roster)),
        {
            Phase(reader.number(1)): (reader.take(32), reader.take(reader.number(4)))
            for _ in range(reader.number(1))
        },
    )


def _sized(data: bytes, width: int) -> bytes:
    return len(data).to_bytes(width, "little") + data


@dataclass(frozen=True)
class Run:
    """How a party derives the secrets of a run and of its rounds."""

    identity: Identity
    scheme: Scheme
    me: int
    context: bytes
    """The context of the run."""

    def begin(self, asked: bytes, server: bytes, secret: bytes) -> Session:
        """Make the key that the chains with peers start from, for this key of the server.

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
        rows = {}
        for peer, pair in now.pairs.items():
            box = seal_box(pair.box, shares[peer], context, self.me)
            rows[peer] = box + pad(pair.mask, secrets.key_element, context, peer)
        return secrets.commitments() + table(rows)
