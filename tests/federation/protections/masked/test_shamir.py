"""Shamir's sharing: any quorum finds the secret, one fewer finds nothing."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from privem.federation.protections.masked import Refused
from privem.federation.protections.masked.shamir import (
    PRIME,
    combine,
    element,
    from_bytes,
    split,
    to_bytes,
)

elements = st.integers(0, PRIME - 1)
points = st.lists(st.integers(1, 2**16), min_size=1, max_size=12, unique=True)


@given(elements, points, st.data())
def test_any_quorum_finds_the_secret(secret, holders, data):
    quorum = data.draw(st.integers(1, len(holders)))
    coefficients = data.draw(st.lists(elements, min_size=quorum - 1, max_size=quorum - 1))
    shares = dict(zip(holders, split(secret, coefficients, holders), strict=True))
    some = data.draw(st.permutations(holders))[:quorum]
    assert combine({x: shares[x] for x in some}) == secret


@given(elements, elements, points, st.data())
def test_one_share_fewer_fits_every_secret(secret, other, holders, data):
    # For the shares of all but one of a quorum and ANY other secret there are coefficients that
    # give the same shares: they say nothing about the secret.
    quorum = len(holders)
    coefficients = data.draw(st.lists(elements, min_size=quorum - 1, max_size=quorum - 1))
    known = dict(zip(holders, split(secret, coefficients, holders), strict=True))
    known.pop(holders[-1])
    # The polynomial through (0, other) and the known shares, evaluated at the missing point by
    # moving the origin there.
    missing = holders[-1]
    moved = {x - missing: share for x, share in known.items()} | {-missing: other}
    share = combine(moved)
    assert combine(known | {missing: share}) == other


@given(elements)
def test_bytes_round_trip(value):
    assert from_bytes(to_bytes(value)) == value


@pytest.mark.parametrize("data", [b"", bytes(31), bytes(33), to_bytes(PRIME), b"\xff" * 32])
def test_what_is_no_element_is_refused(data):
    with pytest.raises(Refused):
        from_bytes(data)


def test_an_element_takes_64_bytes():
    assert element(b"\xff" * 64) == (2**512 - 1) % PRIME
    with pytest.raises(ValueError, match="64"):
        element(bytes(32))
