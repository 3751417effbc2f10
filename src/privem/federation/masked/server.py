"""The server of a masked sum: it carries messages, and opens the sum of the survivors.

It is trusted with nothing. What it checks here keeps sums right, not private: privacy is kept by
what parties refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import messages, shamir
from .errors import Refused, TooFewParties
from .masks import VOTE_BYTES, add_pair_mask, commitment, masking_key, self_mask
from .messages import Phase, Reader, Reply, request, set_bytes, table
from .party import KEY_SHARE, SEED_SHARE, MaskedParty
from .prg import Words
from .primitives import public_bytes
from .scheme import MAX_RUN_BYTES, MAX_SIZE, Scheme

__all__ = ["MaskedSum", "masked_sum", "sum_in_process"]

T = TypeVar("T")
Exchange = Generator[dict[str, bytes], dict[str, bytes], T]


def masked_sum(
    scheme: Scheme,
    run: bytes,
    round_number: int,
    size: int,
    *,
    attempt: int = 0,
    patience: int = 1,
) -> MaskedSum:
    """Sum the parties' vectors modulo 2^64 without seeing any of them.

    A generator: it yields messages by party id, is sent replies by party id, five times. A party
    that is missing from the replies, or whose reply does not fit, has dropped out.

    Parameters
    ----------
    scheme
        The terms, the same at every party.
    run
        Which fit this belongs to, at most 64 bytes.
    round_number
        Larger than any before in this run.
    size
        How many integers each party contributes.
    attempt
        Larger than any before in this round; parties that opened their shares refuse another one.
    patience
        How often those missing are asked again where too few have answered.

    Returns
    -------
    (sum, parties) by ``StopIteration.value``
        The sum as uint64 (view it as int64 for signed numbers), the sorted ids counted in it.

    Raises
    ------
    TooFewParties
        The sum stays closed. The error names who was missing and why.
    """
    return _Server(scheme, run, round_number, size, attempt, patience).exchange()


MaskedSum = Exchange[tuple[Words, list[str]]]


class _Server:
    def __init__(
        self, scheme: Scheme, run: bytes, number: int, size: int, attempt: int, patience: int
    ) -> None:
        if not 0 < len(run) <= MAX_RUN_BYTES:
            raise ValueError(f"a run's id has 1 to {MAX_RUN_BYTES} bytes, got {len(run)}")
        if not (0 <= number < 2**64 and 0 <= attempt < 2**32):
            raise ValueError("rounds and attempts are counted from zero, below 2^64 and 2^32")
        if not 0 < size <= MAX_SIZE:
            raise ValueError(f"a sum has 1 to {MAX_SIZE} entries, got {size}")
        self.scheme = scheme
        self.names = scheme.roster.names
        self.peers = scheme.peers
        self.size = size
        self.patience = patience
        self.context = scheme.context(run, number, attempt, size)
        head = len(run).to_bytes(1, "little") + run + number.to_bytes(8, "little")
        self.head = head + attempt.to_bytes(4, "little") + size.to_bytes(4, "little")
        self.missed: dict[int, str] = {}

    def exchange(self) -> MaskedSum:
        everybody = range(len(self.names))
        keys = yield from self._ask(
            Phase.KEYS, dict.fromkeys(everybody, self.head), self._read_keys, self._enough_begin
        )
        begun = self._core(keys)
        rows = {i: reply.body + reply.signature for i, reply in keys.items() if i in begun}
        asked = {i: table(self._of_peers(i, rows)) for i in begun}
        boxes = yield from self._ask(
            Phase.SHARES, asked, lambda reply: self._read_boxes(reply, begun), self._enough_begin
        )
        shared = self._core(boxes)  # U2: those whose masks are used.

        def carries(answered: Collection[int]) -> bool:
            """Whether the secrets of everybody in U2 can be opened by those who answered."""
            return self._carries(shared, answered)

        incoming = {i: {p: boxes[p][i] for p in self.peers[i] if p in shared} for i in shared}
        total = np.zeros(self.size, dtype=np.uint64)
        receipts = yield from self._ask(
            Phase.INPUT,
            {i: table(incoming[i]) for i in shared},
            lambda reply: self._read_input(reply, incoming[reply.sender], total),
            carries,
        )
        survivors = frozenset(receipts)  # U3: those who are summed.
        members = set_bytes(survivors, len(self.names))
        votes = yield from self._ask(
            Phase.SURVIVORS,
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
            {
                i: table({p: votes[p][i] for p in mine})
                for i, mine in some.items()
                if len(mine) == wanted
            },
            lambda reply: self._read_shares(reply, shared, survivors),
            carries,
        )
        self._take_masks_off(total, keys, shared, survivors, opened)
        return total, sorted(self.names[i] for i in survivors)

    # Asking -------------------------------------------------------------------------------------

    def _ask(
        self,
        phase: Phase,
        bodies: Mapping[int, bytes],
        read: Callable[[Reply], T],
        enough: Callable[[Collection[int]], bool],
    ) -> Exchange[dict[int, T]]:
        """Send everybody its message; return what could be read, or raise TooFewParties."""
        got: dict[int, T] = {}
        for _ in range(1 + self.patience):
            waiting = [i for i in bodies if i not in got]
            replies = yield {
                self.names[i]: request(phase, self.context, bodies[i]) for i in waiting
            }
            for i in waiting:
                data = replies.get(self.names[i])
                try:
                    if data is None:
                        raise Refused("no answer")
                    got[i] = read(self._checked(data, phase, i))
                except Refused as refusal:
                    self.missed[i] = f"{phase.name}: {refusal}"
            if enough(got) or len(got) == len(bodies):
                break
        if not enough(got):
            raise TooFewParties(self._complaint(phase, len(got)))
        return got

    def _complaint(self, phase: Phase, n_answers: int) -> str:
        need = f"{self.scheme.threshold} of {len(self.names)} parties"
        if not self.scheme.all_pairs:
            need += f" and {self.scheme.quorum} of every {self.scheme.degree + 1} peers"
        missed = "; ".join(f"{self.names[i]}: {why}" for i, why in list(self.missed.items())[:5])
        return (
            f"only {n_answers} parties answered in phase {phase.name}, the sum needs {need}; "
            f"it stays closed. Missing: {missed or 'nobody'}"
        )

    def _checked(self, data: bytes, phase: Phase, sender: int) -> Reply:
        """Return the reply if it is this party's, of this phase and round."""
        largest = 8 * self.size + 128 * (self.scheme.degree + 2) + len(self.names)
        reply = Reply.from_bytes(data, largest)
        if reply.phase != phase or reply.context != self.context or reply.sender != sender:
            raise Refused("a reply of another phase, round or party")
        self.scheme.roster.verify(sender, reply.signature, reply.signed_part())
        return reply

    # Who is still in ----------------------------------------------------------------------------

    def _in(self, i: int, some: Collection[int]) -> list[int]:
        return [p for p in self.peers[i] if p in some]

    def _of_peers(self, i: int, rows: Mapping[int, bytes]) -> dict[int, bytes]:
        return {p: rows[p] for p in self.peers[i] if p in rows}

    def _core(self, answered: Collection[int]) -> frozenset[int]:
        """Leave out parties with too few peers, until everybody left has a quorum."""
        core = set(answered)
        while weak := {i for i in core if len(self._in(i, core)) + 1 < self.scheme.quorum}:
            core -= weak
        return frozenset(core)

    def _enough_begin(self, answered: Collection[int]) -> bool:
        return len(self._core(answered)) >= self.scheme.threshold

    def _carries(self, shared: Collection[int], answered: Collection[int]) -> bool:
        if len(answered) < self.scheme.threshold:
            return False
        quorum = self.scheme.quorum
        return all(len(self._in(i, answered)) + (i in answered) >= quorum for i in shared)

    # Reading ------------------------------------------------------------------------------------

    def _read_keys(self, reply: Reply) -> Reply:
        if len(reply.body) != messages.KEYS_BYTES:
            raise Refused("keys of the wrong length")
        return reply

    def _read_boxes(self, reply: Reply, begun: Collection[int]) -> dict[int, bytes]:
        expected = self._in(reply.sender, begun)
        reader = Reader(reply.body)
        boxes = reader.table(messages.BOX_BYTES, expected)
        reader.end()
        if len(boxes) != len(expected):
            raise Refused("sealed shares are missing")
        return boxes

    def _read_input(
        self, reply: Reply, expected: Collection[int], total: Words
    ) -> dict[int, bytes]:
        reader = Reader(reply.body)
        receipts = reader.table(messages.RECEIPT_BYTES, expected)
        masked = reader.vector(self.size)
        reader.end()
        if receipts.keys() != set(expected):
            raise Refused("receipts are missing")
        np.add(total, masked, out=total)
        return receipts

    def _read_votes(
        self, reply: Reply, members: bytes, survivors: Collection[int]
    ) -> dict[int, bytes]:
        expected = self._in(reply.sender, survivors)
        reader = Reader(reply.body)
        if reader.take(len(members)) != members:
            raise Refused("another set of survivors")
        votes = reader.table(VOTE_BYTES, expected)
        reader.end()
        if len(votes) != len(expected):
            raise Refused("votes are missing")
        return votes

    def _read_shares(
        self, reply: Reply, shared: Collection[int], survivors: Collection[int]
    ) -> dict[int, int]:
        mine = {reply.sender, *self._in(reply.sender, shared)}
        reader = Reader(reply.body)
        rows = reader.table(messages.SHARE_BYTES, mine)
        reader.end()
        if rows.keys() != mine:
            raise Refused("shares are missing")
        for i, row in rows.items():
            if row[:1] != (SEED_SHARE if i in survivors else KEY_SHARE):
                raise Refused("a share of the wrong kind")
        return {i: shamir.from_bytes(row[1:]) for i, row in rows.items()}

    # Opening ------------------------------------------------------------------------------------

    def _take_masks_off(
        self,
        total: Words,
        keys: Mapping[int, Reply],
        shared: Collection[int],
        survivors: Collection[int],
        opened: Mapping[int, Mapping[int, int]],
    ) -> None:
        """Subtract the survivors' own masks and the masks between survivors and the dropped."""
        for i in sorted(shared):
            holders = sorted(p for p in (i, *self.peers[i]) if p in opened)[: self.scheme.quorum]
            element = shamir.combine({p + 1: opened[p][i] for p in holders})
            _, public, committed = _thirds(keys[i].body)
            if i in survivors:
                self._agrees(commitment(element, self.context) == committed, i)
                np.subtract(total, self_mask(element, self.context, self.size), out=total)
                continue
            key = masking_key(element, self.context)
            self._agrees(public_bytes(key) == public, i)
            for p in self._in(i, survivors):  # What the dropped party would have added.
                add_pair_mask(total, key, _thirds(keys[p].body)[1], self.context, i, p)

    def _agrees(self, fits: bool, i: int) -> None:
        if not fits:
            raise Refused(
                f"the shares of {self.names[i]!r} do not give what it committed to: "
                "it, or a party that opened a share of it, does not follow the protocol"
            )


def _thirds(body: bytes) -> tuple[bytes, bytes, bytes]:
    return body[:32], body[32:64], body[64:]


def sum_in_process(
    scheme: Scheme,
    parties: Mapping[str, MaskedParty],
    inputs: Mapping[str, NDArray[Any]],
    run: bytes,
    round_number: int,
    *,
    attempt: int = 0,
) -> tuple[Words, list[str]]:
    """Run a masked sum among parties in this process; those without an input never answer."""
    size = len(next(iter(inputs.values())))
    server = masked_sum(scheme, run, round_number, size, attempt=attempt, patience=0)
    requests = next(server)
    while True:
        replies = {
            name: parties[name].handle(message, partial(inputs.__getitem__, name))
            for name, message in requests.items()
            if name in inputs
        }
        try:
            requests = server.send(replies)
        except StopIteration as end:
            result: tuple[Words, list[str]] = end.value
            return result
