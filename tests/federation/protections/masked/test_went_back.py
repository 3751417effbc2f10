"""A masked party restored from an older state: the same again, other masks, or a refusal."""

import numpy as np
import pytest

from privem.federation.protections.masked import MaskedParty, MaskedSums, Refused
from privem.federation.protections.masked.masks import RoundSecrets, self_mask
from privem.federation.protections.masked.messages import BOX_BYTES, Phase, Reader, table
from privem.federation.protections.masked.scheme import round_context, sum_context

from .conftest import RUN, Circle, body
from .test_attacks import BOXES, HEAD, until


def begun(n, **terms):
    """A circle whose parties have fixed secrets, so that it can be begun again."""
    ring = Circle(n, **terms)
    for i, (name, identity) in enumerate(ring.identities.items()):
        ring.parties[name] = MaskedParty(identity, ring.scheme, RUN, bytes([i + 1]) * 32)
    return ring


def back(ring, name, state):
    return MaskedParty.from_state(ring.identities[name], ring.scheme, state)


def words(reply):
    """The masked input in a reply to INPUT."""
    reader = Reader(body(reply))
    reader.table(16, range(100))
    return np.frombuffer(reader.rest(), dtype="<u8")


def test_from_its_secret_a_party_says_the_same_again():
    ring = begun(5)
    state = ring.server.state()
    said = []
    for _ in range(2):
        again = begun(5)
        again.server = MaskedSums(again.scheme, RUN, state)
        for number in (1, 2):
            again.run(number)
            said.append(again.replies)
    assert said[:2] == said[2:]
    assert said[0] != said[1]


@pytest.mark.parametrize("phase", list(Phase))
def test_from_any_state_a_party_goes_on_with_the_same_bytes(phase):
    ring = begun(5)
    _, requests = until(ring, phase)
    party = back(ring, "p0001", ring.parties["p0001"].state())
    first = ring.handle("p0001", requests["p0001"])
    assert party.handle(requests["p0001"], ring.contribution("p0001")) == first
    assert party.state() == ring.parties["p0001"].state()


def test_another_question_after_going_back_has_other_masks():
    """Also for whoever has opened the party's own mask: those with its peers hide the input."""
    ring = begun(5)
    _, requests = until(ring, Phase.INPUT)
    party = ring.parties["p0001"]
    state, message, give = party.state(), requests["p0001"], ring.contribution("p0001")
    context = round_context(ring.scheme.session(RUN), 1)
    seed = RoundSecrets(party._memory.ahead.secret, context).seed_element
    left = []
    for about in (b"", b"another question"):
        kappa = sum_context(context, ring.size, about)
        asked = message[:6] + kappa + message[HEAD:]
        reply = back(ring, "p0001", state).handle(asked, give, 1, about)
        left.append(words(reply) - self_mask(seed, kappa, ring.size))
    assert not (left[0] == left[1]).any()  # the same input: equal by chance once in 2^61


def test_where_nobody_may_drop_out_nobody_can_be_left_out():
    """So a party that goes back cannot be asked for its input under other masks."""
    ring = begun(5, threshold=5)
    _, requests = until(ring, Phase.INPUT)
    message = requests["p0001"]
    boxes = Reader(message[BOXES:]).table(BOX_BYTES, range(5))
    assert len(boxes) == 4
    fewer = message[:BOXES] + table(dict(list(boxes.items())[1:]))
    with pytest.raises(Refused, match="too few"):
        ring.handle("p0001", fewer)
    ring.handle("p0001", message)
