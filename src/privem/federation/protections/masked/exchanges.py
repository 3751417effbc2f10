"""One masked sum, as the server sees it: what it asks, what it reads, how it opens the sum."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from functools import partial
from typing import TypeVar

import numpy as np

from ...errors import Refused, TooFewParties
from ...primitives import KEY_BYTES, Words, agreement_key, public_bytes, tag_key
from . import messages, shamir
from .masks import (
    KEY,
    RECEIPT_BYTES,
    SEED,
    VOTE_BYTES,
    add_pair_mask,
    commitment,
    pad,
    receipt,
    self_mask,
)
from .messages import COMMITMENT_BYTES, Phase, Reader, Reply, request, set_bytes, table
from .party import KEY_SHARE, SEED_SHARE
from .scheme import Scheme, round_context, sum_context

T = TypeVar("T")
Exchange = Generator[dict[str, bytes], dict[str, bytes], T]
Rows = Mapping[int, bytes]


class Exchanges:
    """The exchanges of one sum; parties are numbered as in the roster.

    Parameters
    ----------
    scheme, run, number, size, about, patience
        As for `MaskedSums`.
    secret
        Of the server's key of the run.
    tags
        What the tags of each party's replies come from; filled in as it is needed.
    """

    def __init__(
        self,
        scheme: Scheme,
        run: bytes,
        secret: bytes,
        number: int,
        size: int,
        about: bytes,
        patience: int,
        tags: dict[int, bytes],
    ) -> None:
        self.scheme, self.run, self.number, self.size = scheme, run, number, size
        self.names, self.peers, self.patience = scheme.roster.names, scheme.peers, patience
        self.session = scheme.session(run)
        self.round = round_context(self.session, number)
        self.context = sum_context(self.round, size, about)
        self._key, self._tags = agreement_key(secret), tags
        self._keys: Rows = {}
        self._missed: dict[int, str] = {}

    def ask_keys(self, some: Collection[int]) -> Exchange[Rows]:
        """Ask for keys of the run; return them with their signatures."""
        body = len(self.run).to_bytes(1, "little") + self.run + public_bytes(self._key)
        bodies = dict.fromkeys(some, body)
        keys = yield from self._ask(
            Phase.KEYS, self.session, bodies, self._read_key, self._enough_begin
        )
        return {i: keys[i] for i in sorted(self._core(keys))}

    def ask_shares(self, some: Collection[int], keys: Rows, known: Rows) -> Exchange[Rows]:
        """Ask the parties whose shares of this round are unknown; return all shares."""
        self._keys = keys
        known = {i: known[i] for i in some if i in known}
        lacking = [i for i in some if i in keys and i not in known]
        if not lacking:
            return known
        head = self.number.to_bytes(8, "little")
        bodies = {i: head + table({p: keys[p] for p in self._in(i, keys)}) for i in lacking}
        shares = yield from self._ask(
            Phase.SHARES,
            self.round,
            bodies,
            lambda reply: self._read_shares(reply.sender, Reader(reply.body)),
            lambda got: self._enough_begin({*known, *got}),
        )
        return {**known, **shares}

    def ask_inputs(self, shares: Rows) -> Exchange[tuple[Words, frozenset[int], dict[int, bytes]]]:
        """Ask for masked vectors, votes and secrets.

        Return the sum, who is in it, and the shares its parties have sent for the next round.
        """
        shared = self._core(shares)  # Those whose masks are used.
        if len(shared) < self.scheme.threshold:
            raise TooFewParties(self._complaint(Phase.SHARES, len(shared)))
        rows = {i: self._rows(i, shares[i]) for i in shared}
        boxes = {
            i: {p: rows[p][i][: messages.BOX_BYTES] for p in self._in(i, shared)} for i in shared
        }
        head = self.number.to_bytes(8, "little") + self.size.to_bytes(4, "little")
        total = np.zeros(self.size, dtype=np.uint64)

        carries = partial(self._carries, shared)
        receipts = yield from self._ask(
            Phase.INPUT,
            self.context,
            {i: head + table(boxes[i]) for i in shared},
            lambda reply: self._read_input(reply, boxes[reply.sender], total),
            carries,
        )
        survivors = frozenset(receipts)  # Those who are summed.
        members = set_bytes(survivors, len(self.names))
        votes = yield from self._ask(
            Phase.SURVIVORS,
            self.context,
            {
                i: members + table({p: receipts[p][i] for p in self._in(i, survivors)})
                for i in survivors
            },
            lambda reply: self._read_votes(reply, members, survivors),
            carries,
        )
        wanted = self.scheme.quorum - 1
        some = {i: self._in(i, votes)[:wanted] for i in votes}
        opened = yield from self._ask(
            Phase.UNMASK,
            self.context,
            {
                i: table({p: votes[p][i] for p in mine})
                for i, mine in some.items()
                if len(mine) == wanted
            },
            lambda reply: self._read_opened(reply, shared, survivors),
            carries,
        )
        self._take_masks_off(total, shared, survivors, shares, receipts, opened)
        return total, survivors, {i: ahead for i, (_, ahead) in opened.items() if ahead}

    # Asking -------------------------------------------------------------------------------------

    def _ask(
        self,
        phase: Phase,
        context: bytes,
        bodies: Rows,
        read: Callable[[Reply], T],
        enough: Callable[[Collection[int]], bool],
    ) -> Exchange[dict[int, T]]:
        """Send every party its message; return the replies that fit, or raise TooFewParties."""
        got: dict[int, T] = {}
        for _ in range(1 + self.patience):
            waiting = [i for i in bodies if i not in got]
            replies = yield {self.names[i]: request(phase, context, bodies[i]) for i in waiting}
            for i in waiting:
                data = replies.get(self.names[i])
                try:
                    if data is None:
                        raise Refused("no answer")
                    got[i] = read(self._checked(data, phase, context, i))
                except Refused as refusal:
                    self._missed[i] = f"{phase.name}: {refusal}"
            if enough(got) or len(got) == len(bodies):
                break
        if not enough(got):
            raise TooFewParties(self._complaint(phase, len(got)))
        return got

    def _complaint(self, phase: Phase, n_answers: int) -> str:
        need = f"{self.scheme.threshold} of {len(self.names)} parties"
        if not self.scheme.all_pairs:
            need += f" and {self.scheme.quorum} of every {self.scheme.degree + 1} peers"
        missed = "; ".join(f"{self.names[i]}: {why}" for i, why in list(self._missed.items())[:5])
        return (
            f"only {n_answers} parties answered in phase {phase.name}, the sum needs {need}; "
            f"it stays closed. Missing: {missed or 'nobody'}"
        )

    def _checked(self, data: bytes, phase: Phase, context: bytes, sender: int) -> Reply:
        """Return the reply if it is this party's, of this phase and round."""
        largest = 8 * self.size + 200 * (self.scheme.degree + 2) + len(self.names)
        reply = Reply.from_bytes(data, largest)
        if reply.phase != phase or reply.context != context or reply.sender != sender:
            raise Refused("a reply of another phase, round or party")
        if phase is Phase.KEYS:
            self.scheme.roster.verify(sender, reply.seal, reply.signed_part())
        elif not reply.is_tagged(self._tag_of(sender)):
            raise Refused(f"a message in the name of {self.names[sender]!r} is not its own")
        return reply

    def _tag_of(self, sender: int) -> bytes:
        if sender not in self._tags:
            self._tags[sender] = self._tag_key(sender, self._keys[sender][:KEY_BYTES])
        return self._tags[sender]

    def _tag_key(self, sender: int, public: bytes) -> bytes:
        return tag_key(self._key, public, self.session, sender)

    # Who is still in ----------------------------------------------------------------------------

    def _in(self, i: int, some: Collection[int]) -> list[int]:
        return [p for p in self.peers[i] if p in some]

    def _core(self, answered: Collection[int]) -> frozenset[int]:
        """Leave out parties with too few peers, until everybody left has a quorum."""
        core = set(answered)
        while weak := {i for i in core if len(self._in(i, core)) + 1 < self.scheme.quorum}:
            core -= weak
        return frozenset(core)

    def _enough_begin(self, answered: Collection[int]) -> bool:
        return len(self._core(answered)) >= self.scheme.threshold

    def _carries(self, shared: Collection[int], answered: Collection[int]) -> bool:
        """Whether the secrets of all whose masks are used can be opened by these."""
        if len(answered) < self.scheme.threshold:
            return False
        quorum = self.scheme.quorum
        return all(len(self._in(i, answered)) + (i in answered) >= quorum for i in shared)

    # Reading ------------------------------------------------------------------------------------

    def _read_key(self, reply: Reply) -> bytes:
        if len(reply.body) != 2 * KEY_BYTES or reply.body[KEY_BYTES:] != public_bytes(self._key):
            raise Refused("a key for another server")
        self._tags[reply.sender] = self._tag_key(reply.sender, reply.body[:KEY_BYTES])
        return reply.body[:KEY_BYTES] + reply.seal

    def _read_shares(self, sender: int, reader: Reader) -> bytes:
        """Return shares as they came, if they are complete."""
        body = reader.rest()
        self._rows(sender, body)
        return body

    def _rows(self, sender: int, shares: bytes) -> dict[int, bytes]:
        """Return, for each of a party's peers, a sealed pair of shares and a pad."""
        reader = Reader(shares)
        reader.take(COMMITMENT_BYTES)
        peers = self._in(sender, self._keys)
        rows = reader.whole_table(messages.ROW_BYTES, peers, "sealed shares")
        reader.end()
        return rows

    def _read_input(
        self, reply: Reply, expected: Collection[int], total: Words
    ) -> dict[int, bytes]:
        reader = Reader(reply.body)
        receipts = reader.whole_table(RECEIPT_BYTES, expected, "receipts")
        masked = reader.vector(self.size)
        reader.end()
        np.add(total, masked, out=total)
        return receipts

    def _read_votes(
        self, reply: Reply, members: bytes, survivors: Collection[int]
    ) -> dict[int, bytes]:
        reader = Reader(reply.body)
        if reader.take(len(members)) != members:
            raise Refused("another set of survivors")
        votes = reader.whole_table(VOTE_BYTES, self._in(reply.sender, survivors), "votes")
        reader.end()
        return votes

    def _read_opened(
        self, reply: Reply, shared: Collection[int], survivors: Collection[int]
    ) -> tuple[dict[int, int], bytes]:
        """Return opened shares, and the shares of the next round."""
        mine = {reply.sender, *self._in(reply.sender, shared)}
        reader = Reader(reply.body)
        rows = reader.whole_table(messages.SHARE_BYTES, mine, "shares")
        for i, row in rows.items():
            if row[:1] != (SEED_SHARE if i in survivors else KEY_SHARE):
                raise Refused("a share of the wrong kind")
        opened = {i: shamir.from_bytes(row[1:]) for i, row in rows.items()}
        if self.scheme.shares_ahead:
            return opened, self._read_shares(reply.sender, reader)
        reader.end()
        return opened, b""

    # Opening ------------------------------------------------------------------------------------

    def _take_masks_off(
        self,
        total: Words,
        shared: Collection[int],
        survivors: Collection[int],
        shares: Rows,
        receipts: Mapping[int, Rows],
        opened: Mapping[int, tuple[Mapping[int, int], bytes]],
    ) -> None:
        """Subtract the survivors' own masks and the masks between survivors and the dropped."""
        for i in sorted(shared):
            holders = sorted(p for p in (i, *self.peers[i]) if p in opened)[: self.scheme.quorum]
            element = shamir.combine({p + 1: opened[p][0][i] for p in holders})
            kind = SEED if i in survivors else KEY
            committed = dict(zip((KEY, SEED), (shares[i][:32], shares[i][32:64]), strict=True))
            if commitment(kind, element, self.round) != committed[kind]:
                raise Refused(
                    f"the shares of {self.names[i]!r} do not give what it committed to: "
                    "it, or a party that opened a share of it, does not follow the protocol"
                )
            if i in survivors:
                np.subtract(total, self_mask(element, self.context, self.size), out=total)
                continue
            rows = self._rows(i, shares[i])
            for p in self._in(i, survivors):  # What the dropped party would have added.
                secret = pad(rows[p][messages.BOX_BYTES :], element, self.round, p)
                if receipt(secret, self.context, p) != receipts[p][i]:
                    raise Refused(
                        f"{self.names[i]!r} and {self.names[p]!r} have different masks between "
                        "them: one of the two does not follow the protocol"
                    )
                add_pair_mask(total, secret, self.context, i, p)
