"""Arithmetic on statistics."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privem.tree import RunningSum, add, leaves, ravel, unravel


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
