"""Events: validation, composition, saving."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privem.accounting import (
    Composed,
    Event,
    Failure,
    Gaussian,
    Laplace,
    NoPrivacy,
    Nothing,
    compose,
    flatten,
    from_dict,
    to_dict,
)
from privem.accounting.events import tally

positive = st.floats(1e-6, 1e6)
leaves = st.one_of(
    st.builds(Gaussian, positive, st.integers(1, 1000), st.none() | st.floats(8, 2**30)),
    st.builds(Laplace, positive, st.integers(1, 1000)),
    st.builds(Failure, st.floats(0, 0.01)),
    st.just(NoPrivacy()),
    st.just(Nothing()),
)
events: st.SearchStrategy[Event] = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda parts: Composed(tuple(parts)),
        st.lists(st.tuples(inner, st.integers(0, 50)), max_size=4),
    ),
    max_leaves=8,
)


@given(events)
def test_json_round_trip(event: Event) -> None:
    assert from_dict(json.loads(json.dumps(to_dict(event)))) == event


@given(events, events)
def test_compose_keeps_every_leaf(one: Event, other: Event) -> None:
    counts = dict(flatten(one))
    for leaf, count in flatten(other):
        counts[leaf] = counts.get(leaf, 0) + count
    assert dict(flatten(compose(one, other))) == counts


def test_nested_counts_multiply() -> None:
    inner = Composed(((Gaussian(2.0), 3), (Nothing(), 7)))
    assert flatten(Composed(((inner, 4), (Gaussian(2.0), 1)))) == ((Gaussian(2.0), 13),)


def test_compose_is_as_simple_as_possible() -> None:
    assert compose() == Nothing()
    assert compose(Nothing(), Gaussian(2.0)) == Gaussian(2.0)
    assert compose(Composed(((Gaussian(2.0), 0),))) == Nothing()


def test_failures_add_up_on_the_safe_side() -> None:
    assert tally(Failure(0.1)).failure == 0.1
    assert tally(Composed(((Failure(0.1), 3),))).failure >= 3 * 0.1
    assert math.isclose(tally(compose(Failure(0.1), Failure(0.2))).failure, 0.3)


def test_numpy_numbers_become_plain_ones() -> None:
    values: list[Any] = [np.float64(2), np.int64(3), np.float32(16)]
    event = Gaussian(*values)
    assert event == Gaussian(2.0, 3, 16.0)
    json.dumps(to_dict(event))


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_noise_multiplier_must_be_positive_and_finite(value: float) -> None:
    for kind in (Gaussian, Laplace):
        with pytest.raises(ValueError, match="noise_multiplier must be a finite number above 0"):
            kind(value)
    with pytest.raises(ValueError, match="steps must be"):
        Gaussian(1.0, 1, value)


@pytest.mark.parametrize("value", [0, -3, 1.5])
def test_dimension_must_be_a_positive_integer(value: int) -> None:
    with pytest.raises(ValueError, match="dimension must be an integer of at least 1"):
        Gaussian(1.0, value)


def test_bad_parts_are_refused() -> None:
    with pytest.raises(ValueError, match="count must be an integer of at least 0"):
        Composed(((Gaussian(1.0), -1),))
    with pytest.raises(ValueError, match="holds events"):
        Composed((("gaussian", 1),))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="delta of a Failure"):
        Failure(1.0)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"kind": "uniform"},
            "unknown privacy event kind 'uniform'; known kinds: composed, failure",
        ),
        ({}, "with a 'kind'"),
        ({"kind": "gaussian"}, "malformed privacy event of kind 'gaussian'"),
        ({"kind": "gaussian", "noise_multiplier": 1, "colour": 2}, "colour"),
        ({"kind": "composed", "parts": [{"event": {"kind": "nothing"}}]}, "malformed"),
        ({"kind": "composed", "parts": [], "extra": 1}, "unexpected"),
        ({"kind": "laplace", "noise_multiplier": -1}, "finite number above 0"),
    ],
)
def test_malformed_dictionaries_say_what_is_wrong(data: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_dict(data)
