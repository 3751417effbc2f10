"""A small federation in this process, with a hand on every message."""

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from privem.federation.protections.masked import (
    Identity,
    MaskedParty,
    MaskedSums,
    Refused,
    Roster,
    Scheme,
)
from privem.federation.protections.masked.messages import Phase, Reply

RUN = b"run 1"
SEED = bytes(range(32))


class Circle:
    """Parties, their inputs and a wire between them and the server."""

    def __init__(self, n, *, size=5, **terms):
        # Keys from a counter: the same on every test run, so that failures can be repeated.
        secrets = [hashlib.sha256(f"identity {i}".encode()).digest() for i in range(n)]
        self.identities = {f"p{i:04d}": Identity(secret) for i, secret in enumerate(secrets)}
        self.names = list(self.identities)
        keys = {name: identity.public for name, identity in self.identities.items()}
        self.roster = Roster("test", keys, SEED)
        self.scheme = Scheme.of(self.roster, **terms)
        self.parties = {name: self.party(name) for name in self.names}
        self.size = size
        rng = np.random.default_rng(n)
        self.inputs = {name: rng.integers(-(2**63), 2**63 - 1, size) for name in self.names}
        self.calls = dict.fromkeys(self.names, 0)
        self.server = MaskedSums(self.scheme, RUN)
        self.requests: dict[Phase, dict[str, bytes]] = {}
        self.replies: dict[Phase, dict[str, bytes]] = {}
        self.refusals: dict[str, str] = {}

    def party(self, name):
        return MaskedParty(self.identities[name], self.scheme, RUN)

    def contribution(self, name):
        def give():
            self.calls[name] += 1
            return self.inputs[name]

        return give

    def expected(self, names):
        total = np.zeros(self.size, dtype=np.uint64)
        for name in names:
            total += self.inputs[name].view(np.uint64)
        return total

    def handle(self, name, message):
        return self.parties[name].handle(message, self.contribution(name))

    def liar(self, liar, at, change):
        """Replies with those of one party in one phase changed, under its own seal."""

        def lie(phase, name, reply):
            if phase is not at or name != liar:
                return reply
            bare = Reply(phase, self.names.index(name), reply[10:42], change(body(reply)))
            if phase is Phase.KEYS:
                return bare.sealed(self.identities[name].sign(bare.signed_part()))
            return bare.tagged(self.parties[name]._memory.session.tags)

        return lie

    def run(
        self,
        number=1,
        *,
        patience=0,
        silent: Callable[[Phase, str], bool] = lambda phase, name: False,
        on_request: Callable[[Phase, str, bytes], bytes] = lambda phase, name, data: data,
        on_reply: Callable[[Phase, str, bytes], bytes] = lambda phase, name, data: data,
    ):
        """One sum; a party that refuses a message has dropped out, and why is kept."""
        self.requests, self.replies, self.refusals = {}, {}, {}
        server = self.server.sum(number, self.size, patience=patience)
        requests = next(server)
        while True:
            phase = Phase(next(iter(requests.values()))[5])
            self.requests.setdefault(phase, {}).update(requests)
            replies = {}
            for name, data in requests.items():
                if silent(phase, name):
                    continue
                try:
                    reply = self.handle(name, on_request(phase, name, data))
                    replies[name] = on_reply(phase, name, reply)
                except Refused as refusal:
                    self.refusals[name] = str(refusal)
            self.replies.setdefault(phase, {}).update(replies)
            try:
                requests = server.send(replies)
            except StopIteration as end:
                return end.value


@pytest.fixture
def circle():
    return Circle


def body(reply):
    """A reply without its head and its seal."""
    return reply[42 : -64 if reply[5] == Phase.KEYS else -16]


def dropping(phase, names):
    """From this phase on these parties are silent."""
    return lambda at, name: at >= phase and name in names


@pytest.fixture(name="dropping")
def _dropping():
    return dropping
