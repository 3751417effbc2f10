"""What a server does with replies that are not what was asked for."""

import numpy as np
import pytest

from privem import GaussianMixture
from privem.federation import FederationError, InProcess, TooFewParties
from privem.federation.wire.codec import MAX_BYTES, decode, encode

from ..conftest import federate


def model():
    return GaussianMixture(2, epsilon=4.0, n_iter=2, bounds=(-20.0, 20.0))


class Tampering(InProcess):
    """From the fourth exchange on, one party's replies are changed on their way."""

    def __init__(self, parties, change):
        super().__init__(parties)
        self.change, self.turn, self.old = change, 0, {}

    def exchange(self, mail):
        self.turn += 1
        replies = super().exchange(mail)
        found = dict(replies)
        if self.turn >= 4 and "party 1" in found:
            found["party 1"] = self.change(replies, self.old)
        self.old = {**self.old, **replies}
        return {name: message for name, message in found.items() if message is not None}


CHANGES = {
    "missing": lambda new, old: None,
    "truncated": lambda new, old: new["party 1"][:-3],
    "prolonged": lambda new, old: new["party 1"] + b"x",
    "oversized": lambda new, old: new["party 1"] + bytes(MAX_BYTES),
    "replayed": lambda new, old: old["party 1"],
    "another's": lambda new, old: new.get("party 0", b"?"),
    "nonsense": lambda new, old: b"nonsense",
    "empty": lambda new, old: b"",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("protection", ["plain", "encrypted", "masked"])
def test_a_bad_reply_counts_as_missing(blobs, protection, change):
    rows = [blobs[i::5] for i in range(5)]
    federation = federate(rows, protection)
    federation.transport = Tampering(federation.transport.parties.values(), change)
    with pytest.raises(TooFewParties):
        model().fit(federation)
    federation = federate(rows, protection, dropouts=1)
    federation.transport = Tampering(federation.transport.parties.values(), change)
    fitted = model().fit(federation)
    assert fitted.privacy_.spent <= 4.0
    assert np.isfinite(fitted.means_).all()


def test_an_unregistered_party_is_not_heard(blobs):
    federation = federate([blobs[i::4] for i in range(4)])

    class Crowded(InProcess):
        def exchange(self, mail):
            return {**super().exchange(mail), "stranger": b"hello"}

    federation.transport = Crowded(federation.transport.parties.values())
    model().fit(federation)


@pytest.mark.parametrize("epsilon", [None, 4.0])
def test_ciphertexts_that_are_none_end_the_fit(blobs, epsilon):
    federation = federate([blobs[i::4] for i in range(4)], "encrypted")

    class Garbling(InProcess):
        def exchange(self, mail):
            replies = super().exchange(mail)
            kind, body = decode(replies.get("party 1", encode("x", {})))
            if kind == "reply" and b'"sealed"' in body["payload"]:
                _, inner = decode(body["payload"])
                garbled = tuple(b"garbage" + part[7:] for part in inner["sealed"])
                payload = encode("sealed", {"sealed": garbled})
                replies["party 1"] = encode("reply", {**body, "payload": payload})
            return replies

    federation.transport = Garbling(federation.transport.parties.values())
    with pytest.raises(FederationError, match="missing: party 1"):
        GaussianMixture(2, epsilon=epsilon, bounds=(-20.0, 20.0)).fit(federation)


def test_order_of_replies_does_not_matter(blobs):
    rows = [blobs[i::4] for i in range(4)]

    class Shuffled(InProcess):
        def exchange(self, mail):
            replies = super().exchange(mail)
            return dict(sorted(replies.items(), reverse=True))

    whole = GaussianMixture(2, epsilon=None).fit(federate(rows))
    federation = federate(rows)
    federation.transport = Shuffled(federation.transport.parties.values())
    assert np.array_equal(GaussianMixture(2, epsilon=None).fit(federation).means_, whole.means_)
