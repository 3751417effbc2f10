"""Votes for a set of survivors: nobody opens a share before enough peers agreed on the set."""

import pytest

from privem.federation.protections.masked import TooFewParties
from privem.federation.protections.masked.messages import Phase, Reader, request, set_bytes, table

from .conftest import body
from .test_attacks import HEAD, _survivors, refused, until


def _votes(reply, n):
    """The votes in a SURVIVORS reply."""
    reader = Reader(body(reply))
    reader.members(n)
    return reader.table(16, range(n))


def test_different_survivors_for_different_parties_open_nothing(circle):
    # Half of the parties hear that 4 survives, the others that it does not.
    ring = circle(10)
    _, requests = until(ring, Phase.SURVIVORS)
    everybody, without = set(range(10)), set(range(10)) - {4}
    told = {n: without if i % 2 else everybody for i, n in enumerate(ring.names)}
    signed = {n: ring.handle(n, _survivors(ring, requests[n], told[n])) for n in ring.names}
    for i, name in enumerate(ring.names):
        head = request(Phase.UNMASK, requests[name][6:HEAD], b"")
        others = [j for j, n in enumerate(ring.names) if j != i and told[name] >= {j}]
        rows = {j: _votes(signed[ring.names[j]], 10).get(i, bytes(16)) for j in others}
        refused(ring, name, head + table(rows), "not voted")  # Some voted for the other set.
        same = {j: row for j, row in rows.items() if told[ring.names[j]] == told[name]}
        refused(ring, name, head + table(same), "too few")


def test_votes_are_one_peers_for_another_in_one_round(circle):
    ring = circle(10)
    ring.run(1)
    stale = {i: _votes(ring.replies[Phase.SURVIVORS][n], 10) for i, n in enumerate(ring.names)}
    server, requests = until(ring, Phase.SURVIVORS, number=2)
    signed = {name: ring.handle(name, message) for name, message in requests.items()}
    votes = {i: _votes(signed[n], 10) for i, n in enumerate(ring.names)}
    assert all(votes[i].keys() == set(range(10)) - {i} for i in votes)
    assert len({v for row in votes.values() for v in row.values()}) == 90
    head = request(Phase.UNMASK, requests["p0000"][6:HEAD], b"")
    mine = {j: votes[j][0] for j in range(1, 10)}
    for wrong in (
        votes[3][4],  # 3's vote, for another's eyes
        votes[0][3],  # this party's own vote for 3
        votes[4][0],  # another's vote
        stale[3][0],  # the vote of an earlier round, for the same set
        bytes(16),
    ):
        refused(ring, "p0000", head + table({**mine, 3: wrong}), "'p0003' has not voted")
    few = {j: mine[j] for j in range(1, 6)}
    refused(ring, "p0000", head + table(few), "too few of this party's peers have voted")
    ring.handle("p0000", server.send(signed)["p0000"])


def test_a_reply_without_a_vote_is_a_dropout(circle):
    ring = circle(3)

    def lie(said):
        reader = Reader(said)
        reader.members(3)
        votes = reader.table(16, range(3))
        votes.pop(2)
        return set_bytes({0, 1, 2}, 3) + table(votes)

    with pytest.raises(TooFewParties, match="p0000: SURVIVORS: votes are missing"):
        ring.run(on_reply=ring.liar("p0000", Phase.SURVIVORS, lie))
