"""Arithmetic on statistics."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privem.tree import RunningSum, add, leaves, ravel, short_buffers, unravel


@dataclass(frozen=True)
class Pair:
    count: np.ndarray
    total: np.ndarray | None = None


def test_leaves_come_in_the_order_of_declaration_without_the_absent_ones():
    assert list(leaves(Pair(np.ones(2), np.zeros((2, 3))))) == ["count", "total"]
    assert list(leaves(Pair(np.ones(2)))) == ["count"]


def test_ravel_and_unravel_are_inverse():
    pair = Pair(np.arange(2.0), np.arange(6.0).reshape(2, 3) + 10)
    again = unravel(pair, ravel(pair))
    np.testing.assert_array_equal(again.count, pair.count)
    np.testing.assert_array_equal(again.total, pair.total)
    with pytest.raises(ValueError, match="expected a vector of 8 numbers, got 9"):
        unravel(pair, np.zeros(9))


def test_add_keeps_what_is_absent_absent():
    total = add(Pair(np.ones(2)), Pair(np.full(2, 2.0)))
    np.testing.assert_array_equal(total.count, [3, 3])
    assert total.total is None


numbers = st.floats(-1e200, 1e200)


@given(st.lists(numbers, min_size=1, max_size=30))
def test_running_sum_errs_by_a_few_units_of_the_last_place_plus_second_order(values):
    running = RunningSum()
    for value in values:
        running.add(Pair(np.array([value])))
    exact = float(sum(Fraction(v) for v in values))
    size = math.fsum(abs(v) for v in values)
    # Ogita, Rump and Oishi (2005), Sum2: |error| <= eps |s| + (n eps)^2 sum |x|.
    eps = np.finfo(float).eps
    bound = eps * abs(exact) + (len(values) * eps) ** 2 * size
    assert abs(running.value().count[0] - exact) <= bound


def test_an_infinite_sum_stays_infinite_and_an_empty_one_is_none():
    running = RunningSum()
    assert running.value() is None
    for value in (np.inf, 1.0, 2.0):
        running.add(Pair(np.array([value])))
    assert running.value().count[0] == np.inf


def test_short_buffers_change_how_fast_a_pass_is_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((1496, 10)).astype(np.float32)
    row, column = rng.standard_normal(1496), rng.standard_normal((10, 1))

    def work() -> list[np.ndarray]:
        x = np.subtract(rows.T, column)
        return [x, x * row, np.clip(x, -(column**2), column**2), x.sum(axis=0), x.sum(axis=1)]

    plain = work()
    with short_buffers():
        short = work()
    for a, b in zip(plain, short, strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_size_of_buffers_is_put_back() -> None:
    before = np.getbufsize()
    with short_buffers():
        assert np.getbufsize() < before
    assert np.getbufsize() == before
    with pytest.raises(ZeroDivisionError), short_buffers():
        raise ZeroDivisionError
    assert np.getbufsize() == before
