"""The long audit: a million draws of every release, 20,000 whole fits of every estimator.

``PRIVEM_AUDIT_DRAWS`` and ``PRIVEM_AUDIT_FITS`` set smaller numbers, to try it out.
"""

import os
from functools import partial

import numpy as np
import pytest

from privem.audit import Dataset, attacks, audit_fit, audit_release
from privem.audit.battery import _views, tiny
from privem.noise.discrete import Discrete

DRAWS = int(os.environ.get("PRIVEM_AUDIT_DRAWS", 1_000_000))
FITS = int(os.environ.get("PRIVEM_AUDIT_FITS", 20_000))
RELATIONS = ("add-remove", "replace-one")

pytestmark = pytest.mark.slow


def strongest(query, noise, neighbours):
    """The attack that moves this query's sum the most, and the one with an empty component."""
    pairs = attacks(neighbours)
    moved = [audit_release(query, noise, p.data, p.neighbour, 2).share for p in pairs]
    return {0, int(np.argmax(moved))}, pairs


@pytest.mark.parametrize("neighbours", RELATIONS)
def test_a_million_draws_of_every_release(query, neighbours):
    noise = Discrete(1.0, neighbours, 100.0)
    which, pairs = strongest(query, noise, neighbours)
    # Sums over random pairs are formed anew for every draw.
    draws = DRAWS // 50 if getattr(query, "view", "") == "pairs" else DRAWS
    for i in which:
        pair = pairs[i]
        found = audit_release(query, noise, pair.data, pair.neighbour, draws, name=pair.name)
        print(found.finding())
        assert not found.violated, found.finding()


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", ["GaussianMixture", "KMeans", "FactorAnalysis"])
def test_twenty_thousand_fits(name, neighbours):
    """Ten thousand on each of two neighbouring data sets of 50 records."""
    rng = np.random.default_rng(0)
    shared = np.clip(rng.normal(-0.5, 0.2, (49, 1)), -1, 1)
    target, other = np.ones((1, 1)), -np.ones((1, 1))
    data = Dataset(np.vstack([shared, target]))
    replaced = np.vstack([shared, other])
    neighbour = Dataset(replaced if neighbours == "replace-one" else shared)
    make = partial(tiny, name, neighbours=neighbours)
    found = audit_fit(make, data, neighbour, FITS // 2, _views(name))
    print(found.finding())
    assert not found.violated, found.finding()
