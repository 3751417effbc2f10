"""The bytes on the wire: written one way, read strictly."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from privem.federation.protections.masked import Refused
from privem.federation.protections.masked.messages import (
    Phase,
    Reader,
    Reply,
    read_request,
    request,
    set_bytes,
    table,
    vector,
)

rows = st.dictionaries(st.integers(0, 40), st.binary(min_size=3, max_size=3))


@given(rows)
def test_tables_round_trip(content):
    reader = Reader(table(content))
    assert reader.table(3, range(41)) == content
    reader.end()


@given(st.sets(st.integers(0, 29)), st.integers(30, 40))
def test_sets_round_trip(members, n):
    data = set_bytes(members, n)
    assert len(data) == -(-n // 8)
    assert Reader(data).members(n) == members


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_vectors_round_trip(words):
    array = np.array(words, dtype=np.uint64)
    assert Reader(vector(array)).vector(len(words)).tolist() == words


@given(st.sampled_from(Phase), st.binary(min_size=32, max_size=32), st.binary())
def test_frames_round_trip(phase, context, body):
    assert read_request(request(phase, context, body)) == (phase, context, body)
    reply = Reply(phase, 7, context, body, bytes(64 if phase is Phase.KEYS else 16))
    assert Reply.from_bytes(reply.sealed(reply.seal), len(body)) == reply
    with pytest.raises(Refused, match="larger"):
        Reply.from_bytes(reply.sealed(reply.seal) + b"x", len(body))


@given(st.binary(max_size=200))
def test_noise_is_refused_and_nothing_else(data):
    for read in (read_request, lambda d: Reply.from_bytes(d, 100)):
        with pytest.raises(Refused):
            read(data)


def entry(index):
    return index.to_bytes(4, "little") + b"abc"


@pytest.mark.parametrize(
    "entries",
    [[entry(5), entry(5)], [entry(5), entry(2)], [entry(9)], [entry(2)] * 4],
    ids=["twice", "out of order", "unknown", "too many"],
)
def test_tables_have_one_form(entries):
    data = len(entries).to_bytes(4, "little") + b"".join(entries)
    with pytest.raises(Refused):
        Reader(data).table(3, [2, 5, 7])
