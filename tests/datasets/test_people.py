"""Synthetic people: reproducible, plausible, clustered."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from privem import GaussianMixture
from privem.datasets import make_people
from privem.datasets.people import _GROUPS, _HIGH, _LOW, _correlation


def test_the_same_seed_gives_the_same_people_and_another_does_not():
    assert make_people(500, 3).equals(make_people(500, 3))
    assert not make_people(500, 3).equals(make_people(500, 4))
    generator = np.random.default_rng(3)
    assert make_people(500, generator).equals(make_people(500, 3))


def test_columns_are_plausible_numbers():
    people = make_people(20_000, 0)
    assert people.columns == [
        "age",
        "height_cm",
        "weight_kg",
        "systolic_bp",
        "cholesterol",
        "income_k",
    ]
    assert set(people.dtypes) == {pl.Float64}
    X = people.to_numpy()
    assert (X >= _LOW).all()
    assert (X <= _HIGH).all()
    # Redrawn, not clipped: no pile of values at any limit.
    for limit in (_LOW, _HIGH):
        assert ((limit == X).mean(axis=0) < 0.002).all()


def test_measurements_hang_together():
    correlation = np.corrcoef(make_people(20_000, 0).to_numpy().T)
    age, height, weight, pressure = 0, 1, 2, 3
    assert correlation[height, weight] > 0.3
    assert correlation[age, pressure] > 0.4
    assert correlation[weight, pressure] > 0.2


def test_correlations_are_valid_and_shares_sum_to_one():
    assert sum(group.share for group in _GROUPS) == pytest.approx(1)
    for group in _GROUPS:
        assert np.linalg.eigvalsh(_correlation(group))[0] > 0.05


def test_a_mixture_finds_the_five_groups():
    model = GaussianMixture(5, random_state=0, epsilon=None).fit(make_people(40_000, 0))
    truth = np.array([group.mean for group in _GROUPS])
    spread = np.array([group.deviation for group in _GROUPS])
    away = np.abs(model.means_[:, None] - truth) / spread
    # Every group has a component of its own within half a standard deviation in every column.
    nearest = away.max(axis=2).argmin(axis=0)
    assert sorted(nearest) == list(range(5))
    assert away.max(axis=2).min(axis=0).max() < 0.5


@pytest.mark.parametrize(("bad", "error"), [(0, ValueError), (-1, ValueError), (2.5, TypeError)])
def test_bad_sizes_are_refused(bad, error):
    with pytest.raises(error, match="n_samples"):
        make_people(bad)
