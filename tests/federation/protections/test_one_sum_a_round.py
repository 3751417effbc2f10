"""A server that cheats with rounds or questions opens no sum: masks are of one of each."""

import numpy as np
import pytest

from privem.federation.protections.masked import (
    Identity,
    MaskedParty,
    MaskedSums,
    Refused,
    Roster,
    Scheme,
    TooFewParties,
)
from privem.federation.protections.masked.masks import RoundSecrets, self_mask
from privem.federation.protections.masked.scheme import round_context


class _Asked:
    """A party that was asked something, in some round."""

    def __init__(self, party, about, number=None):
        self.party, self.about, self.number = party, about, number

    def handle(self, message, contribution):
        return self.party.handle(message, contribution, self.number, self.about)


def _drive(parties, protocol, inputs):
    mail = next(protocol)
    try:
        while True:
            replies = {}
            for name, message in mail.items():
                if name not in parties:
                    continue
                try:
                    replies[name] = parties[name].handle(message, lambda name=name: inputs[name])
                except Refused:
                    continue
            mail = protocol.send(replies)
    except StopIteration as end:
        return end.value


def _scheme():
    keys = {name: Identity.new() for name in "abcd"}
    return keys, Scheme.of(Roster("trial", {name: key.public for name, key in keys.items()}))


def test_parties_asked_different_questions_are_never_added_up():
    keys, scheme = _scheme()
    inputs = {name: np.array([1, 2]) for name in keys}
    asked = dict.fromkeys(keys, b"one question") | {"a": b"another"}
    parties = {
        name: _Asked(MaskedParty(key, scheme, b"run"), asked[name]) for name, key in keys.items()
    }
    server = MaskedSums(scheme, b"run")
    with pytest.raises(TooFewParties):
        _drive({"a": parties["a"]}, server.sum(1, 2, b"another"), inputs)
    total, counted = _drive(parties, server.sum(1, 2, b"one question"), inputs)
    assert counted == ["b", "c", "d"]
    assert total.tolist() == [3, 6]


def test_masks_of_different_questions_do_not_cancel():
    """Also where a server adds them up regardless, and knows all self masks."""
    keys, scheme = _scheme()
    asked = dict.fromkeys(keys, b"one question") | {"a": b"another"}
    parties = {
        name: _Asked(MaskedParty(key, scheme, b"run"), asked[name]) for name, key in keys.items()
    }
    state = MaskedSums(scheme, b"run").state()  # one server that asks two things
    sums = {what: MaskedSums(scheme, b"run", state).sum(1, 50, what) for what in asked.values()}
    mail = {what: next(protocol) for what, protocol in sums.items()}
    for _ in range(2):  # keys and shares: the same whatever is asked
        assert mail[b"another"] == mail[b"one question"]
        replies = {name: parties[name].handle(m, None) for name, m in mail[b"another"].items()}
        mail = {what: protocol.send(replies) for what, protocol in sums.items()}
    left = np.zeros(50, dtype=np.uint64)
    for name, party in parties.items():
        reply = party.handle(mail[asked[name]][name], lambda: np.zeros(50, dtype=np.int64))
        now = party.party._memory.round
        secrets = RoundSecrets(now.secret, round_context(scheme.session(b"run"), 1))
        left += np.frombuffer(reply[-16 - 400 : -16], "<u8")
        left -= self_mask(secrets.seed_element, now.context, 50)
    assert (left != 0).all()


def test_a_second_sum_in_the_same_round_is_refused():
    """Of two sums over different survivors the difference would be one party's own numbers."""
    keys, scheme = _scheme()
    inputs = {name: np.array([1, 2]) for name in keys}
    parties = {
        name: _Asked(MaskedParty(key, scheme, b"run"), b"question", 1) for name, key in keys.items()
    }
    server = MaskedSums(scheme, b"run")
    before = server.state()
    assert _drive(parties, server.sum(1, 2, b"question"), inputs)[1] == list("abcd")
    with pytest.raises(TooFewParties):
        _drive(parties, server.sum(2, 2, b"question"), inputs)
    again = MaskedSums(scheme, b"run", before)
    some = {name: parties[name] for name in "bcd"}
    with pytest.raises(TooFewParties):
        _drive(some, again.sum(1, 2, b"question"), inputs)
