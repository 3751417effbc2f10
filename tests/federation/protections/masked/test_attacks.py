"""Servers and wires that do not follow the protocol, and what parties refuse."""

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
from privem.federation.protections.masked.messages import (
    BOX_BYTES,
    Phase,
    Reader,
    request,
    set_bytes,
    table,
)

from .conftest import body

HEAD = 38  # Bytes of a request before its body.
BOXES = HEAD + 12  # And of an INPUT request before its table.


def until(ring, phase, number=1):
    """Run a round up to the requests of a phase; they are returned, not delivered."""
    server = ring.server.sum(number, ring.size, patience=0)
    requests = next(server)
    while next(iter(requests.values()))[5] < phase:
        requests = server.send({name: ring.handle(name, m) for name, m in requests.items()})
    return server, requests


def refused(ring, name, message, match=None):
    """The message is refused and leaves no trace in the party."""
    party = ring.parties[name]
    before = party.state()
    with pytest.raises(Refused, match=match):
        ring.handle(name, message)
    after = party.state()
    assert before == after


@pytest.mark.parametrize("phase", list(Phase))
def test_tampered_requests(circle, phase):
    ring = circle(5)
    _, requests = until(ring, phase)
    message = requests["p0002"]
    rng = np.random.default_rng(0)
    places = (
        {*range(len(message))} if len(message) < 150 else set(rng.integers(0, len(message), 99))
    )
    if phase is Phase.KEYS:  # Its last bytes are the server's own key, which may be any.
        places -= {*range(len(message) - 32, len(message))}
    for place in places:
        bent = bytearray(message)
        bent[place] ^= 1 << int(rng.integers(8))
        refused(ring, "p0002", bytes(bent))
    for bad in (b"", message[:-1], message[:HEAD], message + b"\0", b"\0" * 10**6, message * 2):
        refused(ring, "p0002", bad)
    ring.handle("p0002", message)  # And the right one is still welcome.


@pytest.mark.parametrize("phase", list(Phase))
def test_a_retry_gives_the_same_bytes_and_nothing_else_is_answered(circle, phase):
    ring = circle(5)
    _, requests = until(ring, phase)
    first = {name: ring.handle(name, message) for name, message in requests.items()}
    for name, message in requests.items():
        assert ring.handle(name, message) == first[name]
        state = ring.parties[name].state()
        ring.parties[name] = MaskedParty.from_state(ring.identities[name], ring.scheme, state)
        assert ring.handle(name, message) == first[name]
        # Bytes meant for somebody else, in their place: somebody else's peers are not mine.
        other = requests[next(x for x in ring.names if x != name)]
        if phase is not Phase.KEYS:
            refused(ring, name, other)
    assert all(calls <= 1 for calls in ring.calls.values())


def test_phases_come_in_order_and_rounds_grow(circle):
    ring = circle(5)
    ring.run(1)
    first = ring.requests
    ring.run(2)
    for phase in list(Phase)[1:]:
        refused(ring, "p0001", first[phase]["p0001"], "over|not open")
    _, requests = until(ring, Phase.INPUT, number=3)
    assert {message[5] for message in requests.values()} == {Phase.INPUT}  # No more to agree on.
    ring.handle("p0001", requests["p0001"])
    context = requests["p0001"][6:HEAD]
    refused(ring, "p0001", request(Phase.UNMASK, context, b""), "not the next")


def test_phases_of_a_party_that_has_heard_nothing(circle):
    ring, other = circle(5), circle(5)
    ring.run(1)
    for phase in (Phase.SHARES, Phase.INPUT, Phase.SURVIVORS, Phase.UNMASK):
        refused(other, "p0001", ring.requests[phase]["p0001"], "not the next")


def test_other_terms_are_refused(circle):
    ring = circle(5)
    keys = {name: identity.public for name, identity in ring.identities.items()}
    stranger = {**keys, "p0000": Identity.new().public}
    for roster, terms in (
        (Roster("test", keys, ring.roster.seed), {"threshold": 5}),
        (Roster("other", keys, ring.roster.seed), {}),
        (Roster("test", keys, bytes(32)), {}),
        (Roster("test", stranger, ring.roster.seed), {}),
    ):
        server = MaskedSums(Scheme.of(roster, **terms), b"run 1")
        refused(ring, "p0001", next(server.sum(1, ring.size))["p0001"], "another roster")
    server = MaskedSums(ring.scheme, b"run 2")
    refused(ring, "p0001", next(server.sum(1, ring.size))["p0001"], "another run")


def test_a_round_is_about_one_thing(circle):
    ring = circle(5)
    _, requests = until(ring, Phase.INPUT)
    message = requests["p0001"]
    party, give = ring.parties["p0001"], ring.contribution("p0001")
    for number, about in ((2, b""), (1, b"something else")):
        with pytest.raises(Refused, match=r"another round|something else"):
            party.handle(message, give, number, about)
    longer = message[: HEAD + 8] + (6).to_bytes(4, "little") + message[BOXES:]
    refused(ring, "p0001", longer, "something else")
    assert ring.calls["p0001"] == 0
    reply = party.handle(message, give, 1, b"")
    with pytest.raises(Refused, match="another round"):
        party.handle(message, give, 2, b"")
    assert party.handle(message, give, 1, b"") == reply


def test_a_party_outside_the_roster(circle):
    ring = circle(3)
    with pytest.raises(ValueError, match="not in the roster"):
        MaskedParty(Identity.new(), ring.scheme, b"run 1")


def test_keys_in_another_name(circle):
    ring = circle(5)
    _, requests = until(ring, Phase.SHARES)
    message = requests["p0000"]
    rows = Reader(message[HEAD + 8 :]).table(96, range(5))
    head = message[: HEAD + 8]
    # The key of 2 under the name of 3; nobody's signature; too few of them; a stranger's row.
    refused(ring, "p0000", head + table({**rows, 3: rows[2]}), "not signed")
    refused(ring, "p0000", head + table({**rows, 3: rows[3][:32] + bytes(64)}), "not signed")
    refused(ring, "p0000", head + table({2: rows[2], 3: rows[3]}), "too few")
    refused(ring, "p0000", head + table({**rows, 0: rows[2]}), "more entries")
    refused(ring, "p0000", head + table({1: rows[1], 2: rows[2], 7: rows[3]}), "without need")


def test_another_servers_key_is_noticed_and_asked_for_again(circle):
    ring = circle(5, threshold=5)
    bent = []

    def bend(phase, name, data):
        if phase is Phase.KEYS and name == "p0002" and not bent:
            bent.append(name)
            return data[:-1] + bytes([data[-1] ^ 1])
        return data

    total, counted = ring.run(on_request=bend, patience=1)
    assert bent
    assert counted == ring.names
    np.testing.assert_array_equal(total, ring.expected(ring.names))
    # Once its chains have begun, a party knows one server.
    message = ring.requests[Phase.KEYS]["p0002"]
    refused(ring, "p0002", message[:-1] + bytes([message[-1] ^ 1]), "another message in phase KEYS")


def test_keys_of_a_run_are_believed_once(circle):
    ring = circle(5)
    ring.run(1, silent=lambda phase, name: phase is Phase.UNMASK and name == "p0004")
    _, requests = until(ring, Phase.SHARES, number=2)
    assert list(requests) == ["p0004"]  # The others have sent theirs with their last reply.
    message = requests["p0004"]
    rows = Reader(message[HEAD + 8 :]).table(96, range(5))
    rows.pop(2)
    refused(ring, "p0004", message[: HEAD + 8] + table(rows), "other keys")
    ring.handle("p0004", message)


def test_keys_of_another_run_are_refused(circle):
    ring = circle(5)
    old = Reader(until(ring, Phase.SHARES)[1]["p0000"][HEAD + 8 :]).table(96, range(5))
    again = circle(5)  # The same identities, a run of another name.
    again.parties = {
        n: MaskedParty(again.identities[n], again.scheme, b"run 2") for n in again.names
    }
    again.server = MaskedSums(again.scheme, b"run 2")
    _, requests = until(again, Phase.SHARES)
    refused(again, "p0000", requests["p0000"][: HEAD + 8] + table(old), "not signed")


def test_a_round_too_far_ahead_is_refused(circle):
    ring = circle(5)
    with pytest.raises(TooFewParties):
        ring.run(1001)
    assert all("too far ahead" in why for why in ring.refusals.values())
    ring.run(1000)
    total, counted = ring.run(1700)
    assert counted == ring.names
    np.testing.assert_array_equal(total, ring.expected(ring.names))


def test_boxes_of_somebody_else(circle):
    ring = circle(5)
    _, requests = until(ring, Phase.INPUT)
    mine = Reader(requests["p0000"][BOXES:]).table(BOX_BYTES, range(5))
    theirs = Reader(requests["p0001"][BOXES:]).table(BOX_BYTES, range(5))
    head = requests["p0000"][:BOXES]
    refused(ring, "p0000", head + table({**mine, 2: mine[3]}), "do not open")
    refused(ring, "p0000", head + table({**mine, 2: theirs[2]}), "do not open")
    refused(ring, "p0000", head + table({1: mine[1], 2: mine[2]}), "too few")
    assert ring.calls["p0000"] == 0


def test_a_second_masked_input_is_refused(circle):
    # The same masks but for one peer: the difference would be that peer's mask.
    ring = circle(5, threshold=4)
    _, requests = until(ring, Phase.INPUT)
    message = requests["p0000"]
    ring.handle("p0000", message)
    boxes = Reader(message[BOXES:]).table(BOX_BYTES, range(5))
    boxes.pop(4)
    refused(ring, "p0000", message[:BOXES] + table(boxes), "answered another")


def _survivors(ring, message, members):
    """A SURVIVORS request for another set, with the receipts of the right one."""
    n = len(ring.names)
    reader = Reader(message[HEAD:])
    reader.members(n)
    receipts = reader.table(16, range(n))
    kept = {i: r for i, r in receipts.items() if i in members}
    return message[:HEAD] + set_bytes(members, n) + table(kept)


def test_a_party_signs_one_set_only_and_never_opens_both_kinds(circle):
    ring = circle(10)
    server, requests = until(ring, Phase.SURVIVORS)
    everybody, without = set(range(10)), set(range(10)) - {4}
    signed = {name: ring.handle(name, message) for name, message in requests.items()}
    for name, message in requests.items():
        if name != "p0004":
            refused(ring, name, _survivors(ring, message, without), "answered another")
    unmask = server.send(signed)
    for name, message in unmask.items():
        opened = Reader(body(ring.handle(name, message))).table(33, everybody)
        assert {row[0] for row in opened.values()} == {0}  # Self masks only: all survive.
        for again in (requests[name], message):
            ring.handle(name, again)  # The same bytes as before, nothing new.
        refused(ring, name, _survivors(ring, requests[name], without), "answered another")


def test_sets_a_party_does_not_sign(circle):
    ring = circle(10)
    _, requests = until(ring, Phase.SURVIVORS)
    message = requests["p0003"]
    for members, why in (
        (set(range(10)) - {3}, "not among"),
        (set(range(6)), "fewer than the threshold"),
    ):
        refused(ring, "p0003", _survivors(ring, message, members), why)
    bits = bytearray(message)
    bits[HEAD + 1] |= 0x80  # A party that does not exist.
    refused(ring, "p0003", bytes(bits), "do not exist")


def test_a_survivor_whose_mask_is_missing_is_found_out(circle):
    # Party 0 is told that 9 dropped out early, 9 is told nothing: 0 leaves 9's mask away.
    ring = circle(10)

    def hide(phase, name, data):
        if phase is Phase.INPUT and name == "p0000":
            boxes = Reader(data[BOXES:]).table(BOX_BYTES, range(10))
            boxes.pop(9)
            return data[:BOXES] + table(boxes)
        return data

    _, requests = until(ring, Phase.INPUT)
    inputs = {n: ring.handle(n, hide(Phase.INPUT, n, m)) for n, m in requests.items()}
    context = requests["p0000"][6:HEAD]
    receipts = {}
    for i, name in enumerate(ring.names):
        receipts[i] = Reader(body(inputs[name])).table(16, range(10))
    assert 9 not in receipts[0]
    members = set_bytes(range(10), 10)
    for i, name in enumerate(ring.names):
        mine = {j: receipts[j].get(i, bytes(16)) for j in range(10) if j != i}
        message = request(Phase.SURVIVORS, context, members + table(mine))
        if i == 0:
            refused(ring, name, message, "not shared its secrets")
        elif i == 9:
            refused(ring, name, message, "has not put its mask")
        else:
            ring.handle(name, message)


def test_a_dropped_partys_late_input_is_not_opened(circle):
    # 4 answers INPUT too late; the sum is over the others, and 4's self mask stays closed.
    ring = circle(10)
    late = []

    def hold(phase, name, reply):
        if phase is Phase.INPUT and name == "p0004":
            late.append(reply)
            return b""
        return reply

    total, counted = ring.run(on_reply=hold)
    np.testing.assert_array_equal(total, ring.expected(counted))
    assert "p0004" not in counted
    assert len(late) == 1
    rows = [Reader(body(r)).table(33, range(10)) for r in ring.replies[Phase.UNMASK].values()]
    assert {row[4][0] for row in rows} == {1}
    refused(ring, "p0004", ring.requests[Phase.SURVIVORS]["p0000"])


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("how", ["bent", "short", "long", "empty", "huge", "swapped", "stale"])
def test_the_server_takes_a_bad_reply_for_a_dropout(circle, phase, how):
    ring = before = circle(5)
    if phase <= Phase.SHARES:  # Once a run: of another process of the same name.
        before = circle(5)
    before.run(0)
    old = before.replies[phase]
    mine = {}

    def spoil(at, name, reply):
        if at is not phase:
            return reply
        mine[name] = reply
        if name != "p0001":
            return reply
        middle = len(reply) // 2
        return {
            "bent": reply[:middle] + bytes([reply[middle] ^ 4]) + reply[middle + 1 :],
            "short": reply[:-1],
            "long": reply + b"\0",
            "empty": b"",
            "huge": reply + bytes(10**6),
            "swapped": mine["p0000"],
            "stale": old["p0001"],
        }[how]

    total, counted = ring.run(1, on_reply=spoil)
    expected = [n for n in ring.names if n != "p0001" or phase > Phase.INPUT]
    assert counted == expected
    np.testing.assert_array_equal(total, ring.expected(expected))


def test_a_wrong_share_is_found_out(circle):
    ring = circle(5)

    def lie(said):
        reader = Reader(said)
        rows = reader.table(33, range(5))
        rows[3] = rows[3][:1] + bytes([rows[3][1] ^ 1]) + rows[3][2:]
        return table(rows) + reader.rest()

    with pytest.raises(Refused, match="'p0003' do not give what it committed to"):
        ring.run(on_reply=ring.liar("p0000", Phase.UNMASK, lie))


@pytest.mark.parametrize(
    ("phase", "width", "why"),
    [
        (Phase.SHARES, 112, "sealed shares are missing"),
        (Phase.INPUT, 16, "receipts are missing"),
        (Phase.UNMASK, 33, "shares are missing"),
    ],
)
def test_a_signed_reply_with_something_missing_is_a_dropout(circle, phase, width, why):
    ring = circle(3)

    def lie(said):
        reader = Reader(said)
        head = reader.take(64 if phase is Phase.SHARES else 0)
        rows = reader.table(width, range(3))
        rows.pop(2)
        return head + table(rows) + reader.rest()

    with pytest.raises(TooFewParties, match=f"p0000: {phase.name}: {why}"):
        ring.run(on_reply=ring.liar("p0000", phase, lie))


def test_a_signed_share_of_the_wrong_kind_is_a_dropout(circle):
    ring = circle(3)

    def lie(said):
        reader = Reader(said)
        rows = reader.table(33, range(3))
        rows[2] = b"\x01" + rows[2][1:]
        return table(rows) + reader.rest()

    with pytest.raises(TooFewParties, match="p0000: UNMASK: a share of the wrong kind"):
        ring.run(on_reply=ring.liar("p0000", Phase.UNMASK, lie))


def test_a_signature_of_another_set_is_a_dropout(circle):
    ring = circle(3)

    def lie(said):
        return set_bytes({0, 1}, 3) + said[1:]

    with pytest.raises(TooFewParties, match="p0000: SURVIVORS: another set"):
        ring.run(on_reply=ring.liar("p0000", Phase.SURVIVORS, lie))


def test_an_oversized_message_is_not_even_read(circle):
    ring = circle(3)
    _, requests = until(ring, Phase.KEYS)
    refused(ring, "p0001", requests["p0001"] + bytes(10**5), "larger than it can be")


def test_many_bad_replies_are_too_few_parties(circle):
    ring = circle(5)
    with pytest.raises(TooFewParties, match="not signed by its key"):
        ring.run(on_reply=lambda phase, name, reply: reply[:-1] + bytes([reply[-1] ^ 1]))


def test_a_wrong_pad_is_found_out(circle):
    # A party hides something else than the secret of a mask, then drops out.
    ring = circle(10)

    def lie(said):
        return said[:-1] + bytes([said[-1] ^ 1])

    def silent(phase, name):
        return phase >= Phase.INPUT and name == "p0002"

    with pytest.raises(Refused, match="'p0002' and 'p0009' have different masks"):
        ring.run(on_reply=ring.liar("p0002", Phase.SHARES, lie), silent=silent)


def test_shares_sent_ahead_are_read_as_strictly(circle):
    ring = circle(3)

    def lie(said):
        return said[:-112]

    with pytest.raises(TooFewParties, match="p0000: UNMASK: a message is cut short"):
        ring.run(on_reply=ring.liar("p0000", Phase.UNMASK, lie))


def test_a_key_of_small_order_keeps_its_party_out(circle):
    ring = circle(5)

    def lie(said):
        return bytes(32) + said[32:]

    total, counted = ring.run(on_reply=ring.liar("p0003", Phase.KEYS, lie))
    assert counted == [name for name in ring.names if name != "p0003"]
    np.testing.assert_array_equal(total, ring.expected(counted))
    assert not ring.refusals


def test_tags_are_one_partys_also_for_a_server_that_mixes_its_keys_up(circle):
    # 0 is told that 1's key is the server's, and the other way round: they agree on one secret.
    ring = circle(5)
    requests = next(ring.server.sum(1, 5))
    keys = {n: body(ring.handle(n, requests[n]))[:32] for n in ("p0000", "p0001")}
    for name, other in (("p0000", "p0001"), ("p0001", "p0000")):
        ring.handle(name, requests[name][:-32] + keys[other])
    tags = {ring.parties[name]._memory.session.tags for name in keys}
    assert len(tags) == 2


def test_a_first_round_that_failed_leaves_the_runs_keys(circle):
    ring = circle(5)

    def silent(phase, name):
        return name == "p0004" or (phase is Phase.INPUT and name == "p0003")

    with pytest.raises(TooFewParties):
        ring.run(silent=silent)
    total, counted = ring.run()
    assert counted == ring.names[:4]  # It missed the keys, and stays out.
    np.testing.assert_array_equal(total, ring.expected(counted))
