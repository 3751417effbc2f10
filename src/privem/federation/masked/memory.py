"""What a party remembers between messages, and how it is written down."""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import Refused
from .messages import CONTEXT_BYTES, Phase, Reader, set_bytes, table, vector
from .prg import Words
from .scheme import Scheme

__all__ = ["Memory", "Round"]

_MAGIC = b"PVMP\x02"
_PUBLIC, _SHARES = 64, 64  # Bytes: two public keys; two shares.


@dataclass
class Round:
    """One attempt at one round, as far as it has come."""

    number: int
    attempt: int
    size: int
    context: bytes
    secret: bytes
    replies: dict[Phase, tuple[bytes, bytes]] = field(default_factory=dict)  # request digest, reply
    peers: dict[int, bytes] = field(default_factory=dict)  # channel key, masking key
    held: dict[int, bytes] = field(default_factory=dict)  # shares of masking key and self mask
    survivors: frozenset[int] = frozenset()


@dataclass
class Memory:
    """Everything a party must not forget. Secret: whoever reads it can take the masks off."""

    run: bytes
    opened: int = -1  # The last round in which this party opened shares.
    round: Round | None = None
    contribution: Words | None = None  # Of the current round; attempts share it.

    def to_bytes(self, scheme: Scheme) -> bytes:
        """Write it all."""
        parts = [_MAGIC, scheme.context(self.run, 0, 0, 0), _sized(self.run, 1)]
        parts.append((self.opened + 1).to_bytes(8, "little"))
        now = self.round
        if now is not None:
            parts += [now.number.to_bytes(8, "little"), now.attempt.to_bytes(4, "little")]
            parts += [now.size.to_bytes(4, "little"), now.secret]
            parts.append(len(now.replies).to_bytes(1, "little"))
            for digest, reply in now.replies.values():  # In order: no phase can be skipped.
                parts += [digest, _sized(reply, 4)]
            parts += [table(now.peers), table(now.held)]
            parts.append(set_bytes(now.survivors, len(scheme.roster)))
            parts.append(b"" if self.contribution is None else vector(self.contribution))
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes, scheme: Scheme, me: int) -> Memory:
        """Read what `to_bytes` wrote under the same scheme."""
        reader = Reader(data)
        if reader.take(len(_MAGIC)) != _MAGIC:
            raise Refused("not the state of a party of a masked sum")
        bound = reader.take(CONTEXT_BYTES)
        memory = cls(reader.take(reader.number(1)))
        if bound != scheme.context(memory.run, 0, 0, 0):
            raise Refused("the state belongs to another federation or to other terms")
        memory.opened = reader.number(8) - 1
        if reader.left():
            number, attempt, size = reader.number(8), reader.number(4), reader.number(4)
            context = scheme.context(memory.run, number, attempt, size)
            now = memory.round = Round(number, attempt, size, context, reader.take(32))
            for phase in list(Phase)[: reader.number(1)]:
                now.replies[phase] = (reader.take(32), reader.take(reader.number(4)))
            now.peers = reader.table(_PUBLIC, scheme.peers[me])
            now.held = reader.table(_SHARES, scheme.peers[me])
            now.survivors = reader.members(len(scheme.roster))
            if reader.left():
                memory.contribution = reader.vector(size)
        reader.end()
        return memory


def _sized(data: bytes, width: int) -> bytes:
    return len(data).to_bytes(width, "little") + data
