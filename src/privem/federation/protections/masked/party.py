"""A party of masked sums: it checks each message of a round and answers it once."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import Refused
from ...primitives import KEY_BYTES, Identity, Words, open_box
from .masks import (
    RECEIPT_BYTES,
    VOTE_BYTES,
    RoundSecrets,
    add_pair_mask,
    receipt,
    self_mask,
)
from .messages import (
    BOX_BYTES,
    KEYS_BYTES,
    Phase,
    Reader,
    Reply,
    read_request,
    set_bytes,
    table,
    vector,
)
from .scheme import MAX_RUN_BYTES, MAX_SIZE, Scheme, round_context, sum_context
from .shamir import ELEMENT_BYTES, from_bytes
from .state import Memory, Round, Run

SEED_SHARE, KEY_SHARE = b"\x00", b"\x01"
MAX_SKIPPED = 1000  # Rounds that a party may miss: each is a step on every chain.

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
    secret
        Uniform bytes that nobody else knows and no other run has; by default 32 fresh ones.
        Everything follows from them: a party that is given the same, and the same messages, says
        the same again.

    Examples
    --------
    >>> import numpy as np
    >>> from privem.federation.protections.masked import Identity, MaskedSums, Roster, Scheme
    >>> from privem.run import drive
    >>> keys = {name: Identity.new() for name in ("a", "b", "c")}
    >>> scheme = Scheme.of(Roster("trial", {name: key.public for name, key in keys.items()}))
    >>> parties = {name: MaskedParty(key, scheme, b"run 1") for name, key in keys.items()}
    >>> inputs = {"a": np.array([1, 2]), "b": np.array([10, 20]), "c": np.array([-5, 7])}
    >>> def deliver(mail):
    ...     return {name: parties[name].handle(m, lambda: inputs[name]) for name, m in mail.items()}
    >>> total, counted = drive(MaskedSums(scheme, b"run 1").sum(1, size=2), deliver)
    >>> total.view(np.int64).tolist(), counted
    ([6, 29], ['a', 'b', 'c'])
    """

    def __init__(self, identity: Identity, scheme: Scheme, run: bytes, secret: bytes = b"") -> None:
        if not 0 < len(run) <= MAX_RUN_BYTES:
            raise ValueError(f"a run's id has 1 to {MAX_RUN_BYTES} bytes, got {len(run)}")
        keys = list(scheme.roster.parties.values())
        if identity.public not in keys:
            raise ValueError("this identity's key is not in the roster")
        self._me = keys.index(identity.public)
        self._scheme = scheme
        self._memory = Memory(bytes(run), secret or os.urandom(KEY_BYTES))
        self._context = scheme.session(run)
        self._run = Run(identity, scheme, self._me, self._context)

    def state(self) -> bytes:
        """Return everything that must survive a restart. Secret.

        It must be stored before a reply leaves: if a reply is forgotten, the next one may differ,
        and the round is lost.
        """
        return self._memory.to_bytes(self._scheme)

    @classmethod
    def from_state(cls, identity: Identity, scheme: Scheme, state: bytes) -> MaskedParty:
        """Return the party with this state."""
        me = cls(identity, scheme, b"?")._me
        memory = Memory.from_bytes(state, scheme, me)
        self = cls(identity, scheme, memory.run)
        self._memory = memory
        return self

    def handle(
        self,
        message: bytes,
        contribution: Contribution,
        number: int | None = None,
        about: bytes = b"",
    ) -> bytes:
        """Answer one message of the server.

        Parameters
        ----------
        message
            What came; nothing about it is believed.
        contribution
            Called once a round, when the masked input is due: this party's integers, one for each
            entry of the sum (int64 or uint64; sums are modulo 2^64). Noise, if any, is in them.
        number
            The round that this party is in; messages of others are refused.
        about
            What this party takes the round's sum to be about. It is added up only with parties
            that take it to be about the same.
        """
        scheme = self._scheme
        if len(message) > 1024 + len(scheme.roster) + (scheme.degree + 1) * (4 + KEYS_BYTES):
            raise Refused("a message is larger than it can be")
        phase, context, body = read_request(message)
        digest = hashlib.sha256(message).digest()
        if phase is Phase.KEYS:
            self._memory, reply = self._keys(digest, context, Reader(body))
            return reply
        if self._memory.session is None:
            raise Refused(f"phase {phase.name} is not the next one")
        if phase is Phase.SHARES:
            self._memory, reply = self._share(digest, context, Reader(body), number)
            return reply
        reader = Reader(body)
        now = self._open_round(phase, context, reader, number, about)
        if phase in now.replies:
            return _again(now, phase, digest)
        if phase != 1 + max(now.replies, default=Phase.SHARES):
            raise Refused(f"phase {phase.name} is not the next one")
        match phase:
            case Phase.INPUT:
                now, answer = self._mask(now, reader, contribution)
            case Phase.SURVIVORS:
                now, answer = self._confirm(now, reader)
            case _:
                answer = self._open_shares(now, reader)
        session, ahead = self._memory.session, None
        assert session is not None
        if phase is Phase.UNMASK:
            # Forget the round's secrets: only its replies are needed, if they are asked for again.
            now = Round(now.number, b"", {}, context, replies=now.replies)
            if self._scheme.shares_ahead:
                session, ahead = self._run.prepare(session, now.number + 1)
                answer += self._run.shares(ahead)
        reply = self._sealed(phase, context, answer)
        now = replace(now, replies={**now.replies, phase: (digest, reply)})
        self._memory = replace(self._memory, session=session, round=now, ahead=ahead)
        return reply

    def _sealed(self, phase: Phase, context: bytes, body: bytes) -> bytes:
        assert self._memory.session is not None
        return Reply(phase, self._me, context, body).tagged(self._memory.session.tags)

    # KEYS: once a run ---------------------------------------------------------------------------

    def _keys(self, digest: bytes, context: bytes, body: Reader) -> tuple[Memory, bytes]:
        """Make the key that the chains with peers start from."""
        memory = self._memory
        if memory.session is not None:
            if digest == memory.session.asked:
                return memory, memory.session.reply
            if memory.session.chains:
                raise Refused("this party has answered another message in phase KEYS")
        run, server = body.take(body.number(1)), body.take(KEY_BYTES)
        body.end()
        if run != memory.run:
            raise Refused("a message of another run")
        if context != self._context:
            raise Refused("the server goes by another roster, threshold or graph")
        secret = memory.secret if memory.session is None else memory.session.secret
        session = self._run.begin(digest, server, secret)
        return replace(memory, secret=b"", session=session), session.reply

    # SHARES: where they have not been sent along with UNMASK, or were lost ----------------------

    def _share(
        self, digest: bytes, context: bytes, body: Reader, only: int | None
    ) -> tuple[Memory, bytes]:
        """Check the peers' keys; share both secrets of the round out among them."""
        number = body.number(8)
        rows = body.table(KEYS_BYTES, self._scheme.peers[self._me])
        body.end()
        memory = self._memory
        assert memory.session is not None
        if only not in (None, number):
            raise Refused("a message of another round")
        if context != round_context(self._context, number):
            raise Refused("the server goes by another roster, threshold or graph")
        for known in (memory.round, memory.ahead):
            if known is not None and known.number == number and Phase.SHARES in known.replies:
                return memory, _again(known, Phase.SHARES, digest)
        self._enough(rows, "have sent keys")
        session, ahead = self._run.with_peers(memory.session, rows), memory.ahead
        if ahead is None or number != ahead.number:
            if number < session.at:
                raise Refused("a message of a round that is over")
            if number - session.at > MAX_SKIPPED:
                raise Refused("a message of a round too far ahead")
            # Entering a round ends the one before, however far it has come.
            session, ahead = self._run.prepare(session, number)
            memory = replace(memory, session=session, round=None)
        reply = self._sealed(Phase.SHARES, context, self._run.shares(ahead))
        ahead = replace(ahead, replies={Phase.SHARES: (digest, reply)})
        return replace(memory, ahead=ahead), reply

    # Every round --------------------------------------------------------------------------------

    def _open_round(
        self, phase: Phase, context: bytes, body: Reader, only: int | None, about: bytes
    ) -> Round:
        """Return the round a message is about: the current one, or the one that it begins."""
        now, ahead = self._memory.round, self._memory.ahead
        if now is not None and context == now.context:
            if phase is Phase.INPUT:
                body.take(12)
        elif phase is Phase.INPUT and ahead is not None and body.number(8) == ahead.number:
            size = body.number(4)
            if not 0 < size <= MAX_SIZE:
                raise Refused(f"a sum has 1 to {MAX_SIZE} entries")
            if context != sum_context(round_context(self._context, ahead.number), size, about):
                raise Refused("the server goes by other terms, or asks about something else")
            now = replace(ahead, context=context, size=size)
        else:
            raise Refused("a message of a round that is not open here")
        if only not in (None, now.number):
            raise Refused("a message of another round")
        return now

    def _mask(self, now: Round, body: Reader, contribution: Contribution) -> tuple[Round, bytes]:
        """Take the peers' shares; put all masks on the input."""
        boxes = body.table(BOX_BYTES, now.pairs)
        body.end()
        self._enough(boxes, "have shared their secrets")
        names = self._scheme.roster.names
        context = round_context(self._context, now.number)
        held = {}
        for peer, box in boxes.items():
            plain = open_box(now.pairs[peer].box, box, context, peer, names[peer])
            for half in (plain[:ELEMENT_BYTES], plain[ELEMENT_BYTES:]):
                from_bytes(half)
            held[peer] = plain
        words = _words(contribution(), now.size)
        seed = RoundSecrets(now.secret, context).seed_element
        total = self_mask(seed, now.context, now.size).copy()
        receipts = {}
        for peer in held:
            secret = now.pairs[peer].mask
            add_pair_mask(total, secret, now.context, self._me, peer)
            receipts[peer] = receipt(secret, now.context, self._me)
        total += words
        return replace(now, held=held), table(receipts) + vector(total)

    def _confirm(self, now: Round, body: Reader) -> tuple[Round, bytes]:
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
            expected = receipt(now.pairs[peer].mask, now.context, peer)
            if not hmac.compare_digest(receipts.get(peer, b""), expected):
                raise Refused("a survivor has not put its mask with this party on its input")
        members = set_bytes(survivors, n)
        votes = {p: now.pairs[p].vote(members, now.context, self._me) for p in mine}
        return replace(now, survivors=survivors), members + table(votes)

    def _open_shares(self, now: Round, body: Reader) -> bytes:
        """Check that enough peers voted for the same set; open one kind of share for each."""
        peers = now.survivors.intersection(self._scheme.peers[self._me])
        votes = body.table(VOTE_BYTES, peers)
        body.end()
        self._enough(votes, "have voted for the set of survivors")
        names = self._scheme.roster.names
        members = set_bytes(now.survivors, len(names))
        for peer, vote in votes.items():
            expected = now.pairs[peer].vote(members, now.context, peer)
            if not hmac.compare_digest(vote, expected):
                raise Refused(f"{names[peer]!r} has not voted for this set of survivors")
        secrets = RoundSecrets(now.secret, round_context(self._context, now.number))
        own = secrets.shares(self._scheme.quorum, [self._me])
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


def _again(now: Round, phase: Phase, digest: bytes) -> bytes:
    """Return the answer that was given before, if it is the same message."""
    seen, reply = now.replies[phase]
    if seen != digest:
        raise Refused(f"this party has answered another message in phase {phase.name}")
    return reply


def _words(values: NDArray[Any], size: int) -> Words:
    """Return this party's own contribution as words; a wrong one is a bug here."""
    if values.dtype not in (np.dtype(np.int64), np.dtype(np.uint64)) or values.shape != (size,):
        raise ValueError(
            f"a contribution is {size} integers (int64 or uint64), "
            f"got {values.dtype} of shape {values.shape}"
        )
    return values.astype(np.uint64)
