"""The message format: what comes out is what went in, and nothing else is read."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from privem.blocks.histograms import CountQuery
from privem.federation.wire.codec import MAGIC, BadMessage, decode, encode
from privem.federation.wire.queries import pack, unpack
from privem.models.gaussian_mixture.model import AssignedQuery, Mixture, MixtureQuery
from privem.noise.discrete import Discrete
from privem.noise.sampler import os_entropy

arrays = st.one_of(
    hnp.arrays(
        np.float64, hnp.array_shapes(max_dims=3), elements=st.floats(width=64).filter(np.isfinite)
    ),
    hnp.arrays(np.int64, hnp.array_shapes(max_dims=2)),
    hnp.arrays(np.uint64, (3,)),
)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
        st.binary(max_size=8),
        arrays,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ),
    max_leaves=8,
)


def same(a, b):
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return set(a) == set(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


@given(values)
def test_values_survive_exactly(value):
    kind, body = decode(encode("anything", value))
    assert kind == "anything"
    assert same(value, body)
    assert encode("anything", body) == encode("anything", value)


@given(values, st.data())
def test_a_message_has_one_spelling(value, data):
    """Cut, prolonged, or with a byte changed: refused, or another message altogether."""
    message = encode("anything", value)
    with pytest.raises(BadMessage):
        decode(message[: data.draw(st.integers(0, len(message) - 1))])
    with pytest.raises(BadMessage):
        decode(message + data.draw(st.binary(min_size=1, max_size=3)))
    at = data.draw(st.integers(0, len(message) - 1))
    changed = bytearray(message)
    changed[at] ^= data.draw(st.integers(1, 255))
    try:
        kind, body = decode(bytes(changed))
    except BadMessage:
        return
    assert encode(kind, body) == bytes(changed)


def spelled(header, raw=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return MAGIC + b"\x01" + len(text).to_bytes(4, "little") + text + raw


@pytest.mark.parametrize(
    "message",
    [
        spelled(b'{"arrays": [], "body":null,"kind":"x"}'),  # a space
        spelled(b'{"kind":"x","body":null,"arrays":[]}'),  # another order
        spelled(b'{"arrays":[],"body":NaN,"kind":"x"}'),
        spelled(b'{"arrays":[],"body":1e999,"kind":"x"}'),
        spelled(b'{"arrays":[],"body":null,"kind":"x","more":1}'),
        spelled(b'{"arrays":[],"body":null,"kind":1}'),
        spelled(b'{"arrays":[],"body":{"#":0},"kind":"x"}'),
        spelled(b'{"arrays":[["|O",[1]]],"body":{"#":0},"kind":"x"}', bytes(8)),
        spelled(b'{"arrays":[["<f8",[-1]]],"body":{"#":0},"kind":"x"}'),
        spelled(b'{"arrays":[["<f8",[1.0]]],"body":{"#":0},"kind":"x"}', bytes(8)),
        spelled(b'{"arrays":[["<f8",["1"]]],"body":{"#":0},"kind":"x"}', bytes(8)),
        spelled(b'{"arrays":[["<f8",[true]]],"body":{"#":0},"kind":"x"}', bytes(8)),
        spelled(b'{"arrays":[["<f8",""]],"body":{"#":0},"kind":"x"}', bytes(8)),
        spelled(b'{"arrays":[["<f8",{}]],"body":{"#":0},"kind":"x"}', bytes(8)),
        spelled(b'{"arrays":[["<f8",[1]]],"body":{"#":false},"kind":"x"}', bytes(8)),
        spelled(b'{"arrays":[["<f8",[1]]],"body":null,"kind":"x"}', bytes(8)),
        spelled(b'{"arrays":[["<f8",[1]]],"body":[{"#":0},{"#":0}],"kind":"x"}', bytes(8)),
        spelled(b'{"arrays":[["<f8",[1]]],"body":{"#":0},"kind":"x"}', np.float64("nan").tobytes()),
        spelled(b'{"arrays":[["<f8",[4611686018427387904]]],"body":{"#":0},"kind":"x"}'),
        spelled(b'{"arrays":[],"body":' + b"[" * 40 + b"]" * 40 + b',"kind":"x"}'),
        spelled(b'{"arrays":[],"body":{"@":"CountQuery","fields":{}},"kind":"x"}'),
        spelled(b"[]"),
        spelled(b"{}"),
    ],
)
def test_other_spellings_are_refused(message):
    with pytest.raises(BadMessage):
        decode(message)


@pytest.mark.parametrize(
    "body", [object(), {1: 2}, np.array(["a"]), np.array([1 + 2j]), {"a": {3}}]
)
def test_what_has_no_place_is_not_sent(body):
    with pytest.raises(TypeError):
        encode("x", body)


def test_public_values_travel_by_name_and_without_what_their_proof_fixes():
    mixture = Mixture("diag", np.array([0.25, 0.75]), np.zeros((2, 3)), np.ones((2, 3)))
    query = MixtureQuery(mixture, np.arange(3.0), True)
    _ = query.coefficients  # what was computed from it stays here
    body = unpack(pack("q", {"query": query}), "q")
    again = body["query"]
    assert isinstance(again, MixtureQuery)
    assert np.array_equal(again.origin, query.origin)
    assert np.array_equal(again.mixture.weights, mixture.weights)
    noise = unpack(pack("q", {"n": Discrete(3.0, "add-remove", 7.0, lambda n: bytes(n))}), "q")["n"]
    assert noise.entropy is os_entropy
    count = unpack(pack("q", {"c": CountQuery(2.0, block_rows=1)}), "q")["c"]
    assert count.block_rows == CountQuery().block_rows
    with pytest.raises(TypeError, match="row number"):
        pack("q", {"a": AssignedQuery("diag", np.zeros(2), np.zeros((1, 2)), seed=1)})


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("CountQuery", {"cap_weight": 1.0, "block_rows": 1}),
        ("PlaceQuery", {"width": 1.0}),
        ("os.system", {"command": "true"}),
    ],
)
def test_unknown_values_and_fields_are_refused(name, fields):
    plain = {"@": name, "fields": fields}
    header = {"arrays": [], "body": {"=": {"query": plain}}, "kind": "q"}
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(BadMessage):
        unpack(spelled(text), "q")
