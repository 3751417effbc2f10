"""A party of a masked sum: five messages a round, each answered once, checked before answered."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import Refused
from .keys import Identity
from .masks import VOTE_BYTES, Channel, RoundKeys, add_pair_mask, self_mask
from .memory import Memory, Round
from .messages import (
    BOX_BYTES,
    KEYS_BYTES,
    RECEIPT_BYTES,
    Phase,
    Reader,
    Reply,
    read_request,
    set_bytes,
    table,
    vector,
)
from .prg import Words
from .primitives import SIGNATURE_BYTES, open_box, seal_box
from .scheme import MAX_RUN_BYTES, MAX_SIZE, Scheme
from .shamir import ELEMENT_BYTES, from_bytes

__all__ = ["KEY_SHARE", "SEED_SHARE", "MaskedParty"]

SEED_SHARE, KEY_SHARE = b"\x00", b"\x01"

Contribution = Callable[[], NDArray[Any]]


class MaskedParty:
    """One party's side of masked sums, for one run.

    It trusts nobody but its own copy of the roster: whatever the server sends is checked, and a
    message that does not fit raises `Refused` and changes nothing. The same message again gets
    the same bytes again; a different one in its place is refused.

    Parameters
    ----------
    identity
        This party's signing key; its public half stands in the roster.
    scheme
        The terms, from this party's own roster.
    run
        Which fit the sums belong to (at most 64 bytes). Rounds of other runs are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from privem.federation.masked import Identity, Roster, Scheme, sum_in_process
    >>> keys = {name: Identity.new() for name in ("a", "b", "c")}
    >>> scheme = Scheme.of(Roster("trial", {name: key.public for name, key in keys.items()}))
    >>> parties = {name: MaskedParty(key, scheme, b"run 1") for name, key in keys.items()}
    >>> inputs = {"a": np.array([1, 2]), "b": np.array([10, 20]), "c": np.array([-5, 7])}
    >>> total, counted = sum_in_process(scheme, parties, inputs, b"run 1", round_number=1)
    >>> total.view(np.int64).tolist(), counted
    ([6, 29], ['a', 'b', 'c'])
    """

    def __init__(
        self, identity: Identity, scheme: Scheme, run: bytes, only: int | None = None
    ) -> None:
        if not 0 < len(run) <= MAX_RUN_BYTES:
            raise ValueError(f"a run's id has 1 to {MAX_RUN_BYTES} bytes, got {len(run)}")
        places = [
            i for i, key in enumerate(scheme.roster.parties.values()) if key == identity.public
        ]
        if not places:
            raise ValueError("this identity's key is not in the roster")
        self._me = places[0]
        self._identity = identity
        self._scheme = scheme
        self._memory = Memory(bytes(run))
        self._only = only
        self._keys: RoundKeys | None = None
        self._channels: dict[int, Channel] = {}

    @property
    def name(self) -> str:
        """The party's id in the roster."""
        return self._scheme.roster.names[self._me]

    def state(self) -> bytes:
        """Return everything that must survive a restart. Secret, and to be stored before a reply
        leaves: a reply that is forgotten can be answered differently, and the round is lost.
        """  # noqa: D205
        return self._memory.to_bytes(self._scheme)

    @classmethod
    def from_state(
        cls, identity: Identity, scheme: Scheme, state: bytes, only: int | None = None
    ) -> MaskedParty:
        """Return the party that `state` was taken of."""
        probe = cls(identity, scheme, b"?", only)
        probe._memory = Memory.from_bytes(state, scheme, probe._me)
        return probe

    def handle(self, message: bytes, contribution: Contribution) -> bytes:
        """Answer one message of the server.

        Parameters
        ----------
        message
            What came; nothing about it is believed.
        contribution
            Called once a round, when the masked input is due: this party's integers, one for each
            entry of the sum (int64 or uint64; sums are modulo 2^64). Noise, if any, is in them.
        """
        if len(message) > self._largest_request():
            raise Refused("a message is larger than it can be")
        phase, context, body = read_request(message)
        digest = hashlib.sha256(message).digest()
        if phase is Phase.KEYS:
            now = self._enter(context, body)
        else:
            current = self._memory.round
            if current is None or context != current.context:
                raise Refused("a message of a round that is not open here")
            now = current
        if phase in now.replies:
            seen, reply = now.replies[phase]
            if seen != digest:
                raise Refused(f"this party has answered another message in phase {phase.name}")
            return reply
        if phase != len(now.replies):
            raise Refused(f"phase {phase.name} is not the next one")
        answer = self._answer(phase, now, Reader(body), contribution)
        reply = self._signed(phase, context, answer)
        now.replies[phase] = (digest, reply)
        if phase is Phase.KEYS:
            self._begin(now)
        elif phase is Phase.UNMASK:
            self._finish(now)
        return reply

    def _signed(self, phase: Phase, context: bytes, body: bytes) -> bytes:
        unsigned = Reply(phase, self._me, context, body)
        signature = self._identity.sign(unsigned.signed_part())
        return replace(unsigned, signature=signature).to_bytes()

    def _largest_request(self) -> int:
        return (
            1024
            + len(self._scheme.roster)
            + (self._scheme.degree + 1) * (4 + KEYS_BYTES + SIGNATURE_BYTES)
        )

    def _answer(self, phase: Phase, now: Round, body: Reader, contribution: Contribution) -> bytes:
        match phase:
            case Phase.KEYS:
                return self._round_keys(now).advertisement()
            case Phase.SHARES:
                return self._share(now, body)
            case Phase.INPUT:
                return self._mask(now, body, contribution)
            case Phase.SURVIVORS:
                return self._confirm(now, body)
            case Phase.UNMASK:
                return self._open_shares(now, body)

    # KEYS ---------------------------------------------------------------------------------------

    def _enter(self, context: bytes, body: bytes) -> Round:
        """Return the round a KEYS message is about: the current one, or a new one with new keys."""
        reader = Reader(body)
        run = reader.take(reader.number(1))
        number, attempt, size = reader.number(8), reader.number(4), reader.number(4)
        reader.end()
        memory = self._memory
        if run != memory.run:
            raise Refused("a message of another run")
        if self._only not in (None, number):
            raise Refused("a message of another round")
        if not 0 < size <= MAX_SIZE:
            raise Refused(f"a sum has 1 to {MAX_SIZE} entries")
        if context != self._scheme.context(run, number, attempt, size):
            raise Refused("the server goes by another roster, threshold or graph")
        last = memory.round
        if last is not None:
            if context == last.context:
                return last
            if (number, attempt) <= (last.number, last.attempt):
                raise Refused("a message of a round that is over")
            if number == last.number and size != last.size:
                raise Refused("another attempt at a round has another size")
        if number <= memory.opened:
            raise Refused("this party has opened its shares in that round: no second sum of it")
        return Round(number, attempt, size, context, os.urandom(32))

    def _begin(self, now: Round) -> None:
        last = self._memory.round
        if last is None or last.number != now.number:
            self._memory.contribution = None
        self._memory.round = now
        self._channels = {}

    def _finish(self, now: Round) -> None:
        """Forget the round's secrets: only its replies are needed, if they are asked for again."""
        self._memory.opened = now.number
        self._memory.contribution = None
        now.secret, now.held = bytes(32), {}
        self._keys = None
        self._channels = {}

    def _round_keys(self, now: Round) -> RoundKeys:
        keys = self._keys
        if keys is None or (keys.secret, keys.context) != (now.secret, now.context):
            keys = self._keys = RoundKeys(now.secret, now.context, self._me)
        return keys

    def _channel(self, now: Round, peer: int) -> Channel:
        if peer not in self._channels:
            public = now.peers[peer][:32]
            self._channels[peer] = self._round_keys(now).channel(peer, public)
        return self._channels[peer]

    # SHARES -------------------------------------------------------------------------------------

    def _share(self, now: Round, body: Reader) -> bytes:
        """Check the peers' keys; share both secrets out among them."""
        rows = body.table(KEYS_BYTES + SIGNATURE_BYTES, self._scheme.peers[self._me])
        body.end()
        self._enough(rows, "have sent keys")
        for peer, row in rows.items():
            reply = Reply(Phase.KEYS, peer, now.context, row[:KEYS_BYTES])
            self._scheme.roster.verify(peer, row[KEYS_BYTES:], reply.signed_part())
        keys = self._round_keys(now)
        channels = {peer: keys.channel(peer, row[:32]) for peer, row in rows.items()}
        shares = keys.shares(self._scheme.quorum, rows)
        boxes = {p: seal_box(channels[p].seal, shares[p], now.context) for p in rows}
        now.peers = {peer: row[:64] for peer, row in rows.items()}
        self._channels = channels
        return table(boxes)

    # INPUT --------------------------------------------------------------------------------------

    def _mask(self, now: Round, body: Reader, contribution: Contribution) -> bytes:
        """Take the peers' shares; put all masks on the input."""
        boxes = body.table(BOX_BYTES, now.peers)
        body.end()
        self._enough(boxes, "have shared their secrets")
        names = self._scheme.roster.names
        held = {}
        for peer, box in boxes.items():
            plain = open_box(self._channel(now, peer).unseal, box, now.context, names[peer])
            for half in (plain[:ELEMENT_BYTES], plain[ELEMENT_BYTES:]):
                from_bytes(half)
            held[peer] = plain
        keys = self._round_keys(now)
        total = self_mask(keys.seed_element, now.context, now.size).copy()
        for peer in held:
            public = now.peers[peer][32:]
            add_pair_mask(total, keys.masking, public, now.context, self._me, peer)
        if self._memory.contribution is None:
            self._memory.contribution = _words(contribution(), now.size)
        total += self._memory.contribution
        now.held = held
        receipts = {peer: self._channel(now, peer).receipt_given for peer in held}
        return table(receipts) + vector(total)

    # SURVIVORS ----------------------------------------------------------------------------------

    def _confirm(self, now: Round, body: Reader) -> bytes:
        """Check the set of survivors against what this party knows; vote for it, once."""
        n = len(self._scheme.roster)
        survivors = body.members(n)
        mine = survivors.intersection(self._scheme.peers[self._me])
        receipts = body.table(RECEIPT_BYTES, mine)
        body.end()
        if self._me not in survivors:
            raise Refused("this party is not among the survivors")
        if len(survivors) < self._scheme.threshold:
            raise Refused("the survivors are fewer than the threshold")
        if not mine <= now.held.keys():
            raise Refused("a survivor has not shared its secrets with this party")
        self._enough(mine, "survive")
        for peer in mine:
            expected = self._channel(now, peer).receipt_expected
            if not hmac.compare_digest(receipts.get(peer, b""), expected):
                raise Refused("a survivor has not put its mask with this party on its input")
        now.survivors = survivors
        members = set_bytes(survivors, n)
        return members + table({p: self._channel(now, p).vote(members) for p in mine})

    # UNMASK -------------------------------------------------------------------------------------

    def _open_shares(self, now: Round, body: Reader) -> bytes:
        """Check that enough peers voted for the same set; open one kind of share for each."""
        peers = now.survivors.intersection(self._scheme.peers[self._me])
        votes = body.table(VOTE_BYTES, peers)
        body.end()
        self._enough(votes, "have voted for the set of survivors")
        names = self._scheme.roster.names
        members = set_bytes(now.survivors, len(names))
        for peer, vote in votes.items():
            if not self._channel(now, peer).agrees(vote, members):
                raise Refused(f"{names[peer]!r} has not voted for this set of survivors")
        own = self._round_keys(now).shares(self._scheme.quorum, [self._me])
        opened = {}
        for index, pair in {**now.held, **own}.items():
            if index in now.survivors:
                opened[index] = SEED_SHARE + pair[ELEMENT_BYTES:]
            else:
                opened[index] = KEY_SHARE + pair[:ELEMENT_BYTES]
        return table(opened)

    def _enough(self, peers: Any, what: str) -> None:
        """Refuse unless this party and these peers make a quorum."""
        if len(peers) + 1 < self._scheme.quorum:
            raise Refused(f"too few of this party's peers {what}")


def _words(values: NDArray[Any], size: int) -> Words:
    """Return a contribution as words; it is this party's own, so what is wrong is a bug here."""
    if values.dtype not in (np.dtype(np.int64), np.dtype(np.uint64)) or values.shape != (size,):
        raise ValueError(
            f"a contribution is {size} integers (int64 or uint64), "
            f"got {values.dtype} of shape {values.shape}"
        )
    return values.astype(np.uint64)
