"""``bounds=``: by position, by name, and never by guess."""

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

import privem
from privem import (
    GaussianMixture,
    private_mean,
)

from ..examples import PLAIN, TARGETED

rng = np.random.default_rng(0)
FRAME = pl.DataFrame({"age": rng.uniform(20, 80, 300), "height": rng.normal(1.7, 0.1, 300)})
BY_NAME = {"height": (0.5, 2.5), "age": (0, 120)}


@pytest.mark.parametrize("kind", PLAIN)
def test_bounds_by_name_are_bounds_by_position(kind, tmp_path):
    FRAME.write_csv(tmp_path / "t.csv")
    for X in (FRAME, tmp_path / "t.csv"):
        low, high = clone(kind(bounds=BY_NAME)).fit(X).bounds_
        np.testing.assert_allclose(low, [0, 0.5], atol=1e-12)
        np.testing.assert_allclose(high, [120, 2.5])


def test_of_regressions():
    for kind in TARGETED:
        method = {"method": "moments"} if "method" in kind().get_params() else {}
        model = kind(bounds=BY_NAME, target_bounds=5.0, **method).fit(FRAME, np.ones(300))
        np.testing.assert_allclose(model.bounds_[1], [120, 2.5])


@pytest.mark.parametrize("bounds", [[(0, 1)] * 6, ((0, 1),) * 6, np.array([(0, 1)] * 6)])
def test_a_pair_for_each_feature_is_named_as_such(bounds):
    with pytest.raises(ValueError, match=r"got 6 pairs.*write \(\[lows\], \[highs\]\)") as caught:
        GaussianMixture(bounds=bounds).fit(np.zeros((20, 6)))
    assert "2 of them" not in str(caught.value)
    # Sides of different lengths are something else.
    with pytest.raises(ValueError, match=r"bounds must be \(low, high\)"):
        GaussianMixture(bounds=([0, 0, 0], [1, 1])).fit(np.zeros((20, 2)))


@pytest.mark.parametrize("kind", PLAIN)
def test_a_large_delta_is_said_once(kind):
    X = np.random.default_rng(0).normal(size=(300, 2))
    with pytest.warns(UserWarning, match="delta=0.1 is large") as caught:
        kind(delta=0.1, bounds=5.0).fit(X)
    assert sum("delta=0.1 is large" in str(warning.message) for warning in caught) == 1


def test_a_large_delta_is_said_once_of_targets_and_means():
    X = np.random.default_rng(0).normal(size=(300, 2))
    for kind in TARGETED:
        with pytest.warns(UserWarning, match="delta") as caught:
            kind(delta=0.1, bounds=5.0, target_bounds=9.0).fit(X, X[:, 0])
        assert sum("delta=0.1 is large" in str(warning.message) for warning in caught) == 1
    with pytest.warns(UserWarning, match="delta") as caught:
        private_mean(X, tau=1.0, delta=0.1)
    assert len(caught) == 1


def test_they_are_saved(tmp_path):
    model = GaussianMixture(bounds=BY_NAME).fit(FRAME)
    again = privem.load(model.save(tmp_path / "m.json") and tmp_path / "m.json")
    assert {name: tuple(pair) for name, pair in again.bounds.items()} == BY_NAME
    assert again.sample_frame(50)["age"].is_between(0, 120).all()
    again.fit(FRAME)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"age": (0, 120)}, "without bounds: column number 2"),
        ({**BY_NAME, "weight": (0, 1)}, "no such column: weight"),
        (
            {"agee": (0, 120), "height": (0, 3)},
            "no such column: agee; without bounds: column number 1",
        ),
    ],
)
def test_every_column_has_bounds_and_no_other(bounds, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(bounds=bounds).fit(FRAME)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"age": (120, 0), "height": (0, 3)}, "bounds of 'age' are .120, 0.: low must be below"),
        ({"age": 120, "height": (0, 3)}, r"bounds of 'age' must be \(low, high\), got 120"),
        ({"age": (0, np.nan), "height": (0, 3)}, "low must be below high"),
        ({"age": (0, np.inf), "height": (0, 3)}, "finite"),
    ],
)
def test_bad_pairs_are_refused_before_there_are_data(bounds, message):
    with pytest.raises(ValueError, match=message):
        GaussianMixture(bounds=bounds).fit(object())


def test_names_need_names():
    with pytest.raises(ValueError, match="X has no column names"):
        GaussianMixture(bounds=BY_NAME).fit(FRAME.to_numpy())


TWO_READINGS = [
    [(0, 10), (5, 20)],
    ((0, 10), (5, 20)),
    [[0, 10], [5, 20]],
    np.array([[0, 10], [5, 20]]),
    [(0, 10), (0, 20)],  # as (low, high) the first feature would go from 0 to 0
    ([0, 10], [0, 20]),
    ([1, 10], [0, 20]),
]


@pytest.mark.parametrize("bounds", TWO_READINGS, ids=repr)
def test_two_pairs_are_never_taken_for_low_and_high(bounds):
    for kind in PLAIN:
        with pytest.raises(ValueError, match="can be read in two ways"):
            kind(bounds=bounds).fit(object())


@pytest.mark.parametrize(
    ("bounds", "low", "high"),
    [
        (([0, 10], [5, 20]), [0, 10], [5, 20]),
        ((np.array([0, 10]), np.array([5, 20])), [0, 10], [5, 20]),
        ([np.array([0, 10]), np.array([5, 20])], [0, 10], [5, 20]),
        ([(0, 5), (5, 9)], [0, 5], [5, 9]),  # both readings are the same
        ([(9, 5), (10, 6)], [9, 5], [10, 6]),  # no pairs
        ((0, 9), [0, 0], [9, 9]),
        ((0, [9, 10]), [0, 0], [9, 10]),
        ((0, (9, 10)), [0, 0], [9, 10]),
    ],
    ids=repr,
)
def test_low_and_high(bounds, low, high):
    found = GaussianMixture(bounds=bounds).fit(np.ones((50, 2))).bounds_
    np.testing.assert_array_equal(found, (low, high))


def test_a_huge_epsilon_is_refused_in_plain_words():
    for epsilon in (1000.0, 1e6):
        with pytest.raises(ValueError, match="epsilon is too large: so little noise"):
            GaussianMixture(epsilon=epsilon, bounds=9.0).fit(np.ones((50, 2)))
