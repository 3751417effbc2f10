"""The graph of peers: regular, the same everywhere, and as well connected as promised."""

import hashlib

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import hypergeom

from privem.federation.protections.masked import Refused, TooFewParties
from privem.federation.protections.masked.graph import (
    FAILURE,
    check_neighbourhoods,
    neighbourhoods,
    spectral_bound,
    surrounded,
)
from privem.federation.protections.masked.messages import (
    BOX_BYTES,
    Phase,
    Reader,
    read_request,
    table,
)

SEED = bytes(range(32))
SPARSE = {"degree": 14, "quorum": 11}


@given(st.integers(5, 90), st.data())
@settings(max_examples=40)
def test_simple_regular_symmetric(n, data):
    degree = 2 * data.draw(st.integers(1, (n - 2) // 2))
    peers = neighbourhoods(data.draw(st.binary(min_size=32, max_size=32)), n, degree)
    for i, mine in enumerate(peers):
        assert len(mine) == len(set(mine)) == degree
        assert list(mine) == sorted(mine)
        assert i not in mine
        assert all(i in peers[j] for j in mine)


def test_the_graph_is_the_same_on_every_machine():
    text = repr(neighbourhoods(SEED, 200, 32)).encode()
    assert hashlib.sha256(text).hexdigest()[:16] == "eb10d5ecb56e9628"
    assert neighbourhoods(SEED, 200, 32) != neighbourhoods(bytes(32), 200, 32)


def test_the_eigenvalue_is_that_of_a_good_graph():
    for n, degree in ((100, 28), (1000, 40)):
        assert spectral_bound(neighbourhoods(SEED, n, degree)) < 2.05 * np.sqrt(degree - 1)


def test_both_ways_to_the_eigenvalue_agree(monkeypatch):
    peers = neighbourhoods(SEED, 300, 20)
    dense = spectral_bound(peers)
    monkeypatch.setattr("privem.federation.protections.masked.graph._DENSE", 10)
    assert dense == pytest.approx(spectral_bound(peers), abs=2e-4)


PEERS = neighbourhoods(SEED, 120, 28)
SECOND = spectral_bound(PEERS)


@given(st.sets(st.integers(0, 119), min_size=1), st.sets(st.integers(0, 119)))
def test_the_edges_out_of_a_set_stay_below_the_bound(some, colluders):
    # The inequality `check_neighbourhoods` rests on, tried on the graph itself.
    honest = some - colluders
    if not honest:
        return
    target = honest | colluders
    edges = sum(j in target for i in honest for j in PEERS[i])
    a, b = len(honest) / 120, len(target) / 120
    bound = 28 * b + SECOND * np.sqrt(b / a * (1 - a) * (1 - b))
    assert edges / len(honest) <= bound + 1e-9
    inside = sum(j in honest for i in honest for j in PEERS[i]) / len(honest)
    assert inside <= min(len(honest) - 1, 28 * a + SECOND * (1 - a)) + 1e-9


def test_a_greedy_server_finds_no_small_set_to_sum_alone():
    # Grow sets around a party, always by the one with most peers inside: the densest one finds.
    quorum, colluders = 24, 6
    least = check_neighbourhoods(120, 28, quorum, colluders, SECOND)
    assert least > 57
    rng = np.random.default_rng(0)
    for start in range(0, 120, 10):
        held = set(rng.choice(120, colluders, replace=False).tolist())
        inside = {start} - held
        while len(inside) < least - 1:
            weak = all(len((inside | held) & set(PEERS[i])) >= quorum - 1 for i in inside)
            assert not (inside and weak)
            rest = set(range(120)) - inside - held
            inside.add(max(rest, key=lambda i: len((inside | held) & set(PEERS[i]))))


def test_surrounded_is_the_quantile_it_says():
    for n, degree, colluders in ((1000, 40, 50), (100, 28, 10), (300, 30, 0)):
        worst = surrounded(n, degree, colluders)
        assert n * hypergeom.sf(worst, n - 1, colluders, degree) <= FAILURE
        if worst:
            assert n * hypergeom.sf(worst - 1, n - 1, colluders, degree) > FAILURE


def test_too_many_colluders_are_not_promised_anything(circle):
    ring = circle(100)
    cohort = ring.scheme.honest_cohort(5)
    assert 47 < cohort <= 95
    assert ring.scheme.honest_cohort(0) >= cohort
    with pytest.raises(ValueError, match="colluders"):
        ring.scheme.honest_cohort(33)
    dense = circle(10)
    assert dense.scheme.honest_cohort(3) == 4
    with pytest.raises(ValueError, match="at most 3 colluders"):
        dense.scheme.honest_cohort(4)


def test_above_64_parties_the_graph_is_sparse(circle):
    ring = circle(65, size=3)
    assert ring.scheme.degree == 26
    total, counted = ring.run()
    assert counted == ring.names
    np.testing.assert_array_equal(total, ring.expected(ring.names))


@pytest.mark.parametrize("phase", list(Phase))
def test_a_sparse_sum_survives_dropouts(circle, dropping, phase):
    ring = circle(40, size=3, **SPARSE)
    assert not ring.scheme.all_pairs
    gone = set(np.random.default_rng(int(phase)).choice(ring.names, 4, replace=False))
    total, counted = ring.run(silent=dropping(phase, gone))
    survivors = [x for x in ring.names if x not in gone or phase > Phase.INPUT]
    assert counted == survivors
    np.testing.assert_array_equal(total, ring.expected(survivors))


def test_one_empty_neighbourhood_stays_out_or_closes_the_sum(circle, dropping):
    ring = circle(40, size=3, **SPARSE)
    mine = {ring.names[i] for i in ring.scheme.peers[0]}
    few = set(sorted(mine)[: ring.scheme.degree + 2 - ring.scheme.quorum])
    # Gone before inputs: party 0 has too few peers and is left out, the others are summed.
    total, counted = ring.run(1, silent=dropping(Phase.KEYS, few))
    assert set(ring.names) - set(counted) >= {*few, ring.names[0]}
    np.testing.assert_array_equal(total, ring.expected(counted))
    # Gone after inputs: its secrets cannot be opened any more.
    ring = circle(40, size=3, **SPARSE)
    with pytest.raises(TooFewParties, match="of every"):
        ring.run(2, silent=dropping(Phase.SURVIVORS, few))


def test_a_sparse_party_refuses_a_thin_neighbourhood(circle):
    ring = circle(40, size=3, **SPARSE)
    few = ring.scheme.degree + 2 - ring.scheme.quorum
    gone = {ring.names[i] for i in ring.scheme.peers[0][:few]}
    # A server that does not leave party 0 out: the party itself refuses.
    server = ring.server.sum(2, 3)
    requests = next(server)
    shares = server.send({n: ring.handle(n, m) for n, m in requests.items()})
    message = shares["p0000"]
    rows = Reader(message[46:]).table(96, range(40))
    thin = {i: row for i, row in rows.items() if ring.names[i] not in gone}
    with pytest.raises(Refused, match="too few of this party's peers"):
        ring.handle("p0000", message[:46] + table(thin))


def test_parties_lost_between_rounds_are_merely_left_out(circle):
    ring = circle(40, size=3, **SPARSE)
    assert ring.run(1)[1] == ring.names
    few = ring.scheme.degree + 2 - ring.scheme.quorum
    gone = {ring.names[i] for i in ring.scheme.peers[0][:few]}
    total, counted = ring.run(2, silent=lambda phase, name: name in gone)
    assert set(ring.names) - set(counted) >= {*gone, ring.names[0]}
    np.testing.assert_array_equal(total, ring.expected(counted))


@pytest.mark.parametrize("terms", [{}, {"quorum": 13}], ids=["everybody", "most peers"])
def test_no_party_goes_on_without_a_peer_in_a_sum_over_everybody(circle, terms):
    """Else a server hides one party from its peers, and opens the sum over all others."""
    group = circle(40, threshold=40, degree=14, **terms)
    left_out = 7
    peers = {group.names[i] for i in group.scheme.peers[left_out]}

    def without(phase, name, data):
        if phase is not Phase.INPUT or name not in peers:
            return data
        head, reader = data[: -len(body := read_request(data)[2])], Reader(body)
        numbers = reader.take(12)
        rows = reader.table(BOX_BYTES, group.scheme.peers[group.names.index(name)])
        del rows[left_out]
        return head + numbers + table(rows)

    with pytest.raises(TooFewParties):
        group.run(on_request=without)
    accepted = peers & set(group.replies[Phase.INPUT])
    assert accepted == (peers if terms else set())
    assert len(group.replies[Phase.INPUT]) == (40 if terms else 26)
