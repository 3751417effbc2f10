"""Arithmetic on statistics; packed symmetric matrices and eigenvalue floors."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from privem.linalg import (
    RunningSum,
    add,
    floor_eigenvalues,
    gamma,
    invert_cholesky,
    leaves,
    ravel,
    short_buffers,
    smat,
    svec,
    symmetric_pairs,
    unravel,
)


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


@given(st.lists(numbers, min_size=1, max_size=40), st.data())
def test_totals_merged_in_any_tree_err_by_no_more(values, data):
    """Parts of any size, empty ones too, merged in any order: release.md, section 3, item 7."""
    parts = []
    for value in values:
        if not parts or data.draw(st.booleans()):
            parts += [RunningSum(), RunningSum()]
        parts[data.draw(st.integers(0, len(parts) - 1))].add(Pair(np.array([value])))
    while len(parts) > 1:
        other = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        before = other.value()
        parts[data.draw(st.integers(0, len(parts) - 1))].merge(other)
        assert (before is None) == (other.value() is None)
        assert before is None or before.count[0] == other.value().count[0]
    exact = float(sum(Fraction(v) for v in values))
    size, u = math.fsum(abs(v) for v in values), 2.0**-53
    # The bound as it is charged, but for the rounding of `exact` itself.
    bound = 2 * u * abs(exact) + gamma(len(values)) ** 2 * size
    assert abs(parts[0].value().count[0] - exact) <= bound


def test_an_infinite_sum_stays_infinite_and_an_empty_one_is_none():
    running = RunningSum()
    assert running.value() is None
    for value in (np.inf, 1.0, 2.0):
        running.add(Pair(np.array([value])))
    assert running.value().count[0] == np.inf
    merged = RunningSum()
    for total in (running, RunningSum(), running):
        merged.merge(total)
    assert merged.value().count[0] == np.inf


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


dimensions = st.integers(1, 12)


def symmetric(d, elements):
    return arrays(float, (d, d), elements=elements).map(lambda a: np.triu(a) + np.triu(a, 1).T)


@pytest.mark.parametrize("d", range(1, 12))
def test_every_entry_is_named_once(d):
    i, j = symmetric_pairs(d)
    assert len(i) == d * (d + 1) // 2
    assert len({frozenset(pair) for pair in zip(i.tolist(), j.tolist(), strict=True)}) == len(i)


@given(dimensions.flatmap(lambda d: symmetric(d, st.floats(-1e3, 1e3))))
def test_svec_is_an_isometry_and_smat_its_inverse(matrix):
    d = len(matrix)
    np.testing.assert_allclose(smat(svec(matrix), d), matrix, rtol=1e-15, atol=0)
    assert np.linalg.norm(svec(matrix)) == pytest.approx(np.linalg.norm(matrix), rel=1e-12)


def test_svec_of_several_matrices_at_once():
    stack = np.random.default_rng(0).normal(size=(4, 3, 3))
    stack = stack + np.swapaxes(stack, 1, 2)
    np.testing.assert_array_equal(svec(stack), np.stack([svec(m) for m in stack]))


@settings(max_examples=60)
@given(st.data())
def test_any_symmetric_matrix_is_raised_to_its_floor(data):
    d = data.draw(dimensions)
    magnitude = data.draw(st.sampled_from([1e-290, 1e-20, 1.0, 1e20, 1e290]))
    matrix = data.draw(symmetric(d, st.floats(-1, 1))) * magnitude
    floor = 10.0 ** data.draw(arrays(float, d, elements=st.floats(-30, 20)))
    raised = floor_eigenvalues(matrix, floor)
    np.testing.assert_array_equal(raised, raised.T)
    invert_cholesky(raised)
    # In the unit of each column the smallest eigenvalue is at least one, to the rounding that a
    # matrix of this size allows, or half where it was not below that to begin with.
    with np.errstate(over="ignore"):
        scaled = raised / np.sqrt(floor) / np.sqrt(floor)[:, None]
    if np.isfinite(scaled).all():
        values = np.linalg.eigvalsh(scaled)
        assert values[0] >= 0.49 - 64 * d * np.finfo(float).eps * values[-1]


@given(dimensions, st.integers(0, 2**32 - 1))
def test_a_matrix_above_its_floor_keeps_every_bit(d, seed):
    a = np.random.default_rng(seed).normal(size=(2 * d, d))
    matrix = a.T @ a + np.eye(d)
    matrix = (matrix + matrix.T) / 2
    np.testing.assert_array_equal(floor_eigenvalues(matrix, np.full(d, 0.5)), matrix)


def test_columns_of_very_different_size_keep_their_own():
    # One floor for all (of 1e-12 of the mean variance, 50) would drown the second column.
    matrix = np.array([[1e14, 1e7], [1e7, 1.0 - 1e-13]])  # singular to rounding
    raised = floor_eigenvalues(matrix, 1e-12 * np.diag(matrix))
    np.testing.assert_allclose(np.diag(raised), np.diag(matrix), rtol=1e-3)
    np.linalg.cholesky(raised)


def test_whitening():
    a = np.random.default_rng(3).normal(size=(9, 4))
    matrix = a.T @ a
    w = invert_cholesky(matrix)
    np.testing.assert_allclose(w @ matrix @ w.T, np.eye(4), atol=1e-12)
    np.testing.assert_array_equal(np.triu(w, 1), 0)
