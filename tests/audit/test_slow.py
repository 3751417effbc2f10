"""The long audit: a million draws of every release, 20,000 whole fits of every estimator.

And half as many fits of persons, and with bounds estimated. About half an hour on two quiet cores.

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


def neighbours_of_fifty(kind):
    """Fifty records about -0.5, one of them far away, and the same without or with another.

    ``"persons"``: the far one has ten rows.
    """
    rng = np.random.default_rng(0)
    shared = np.clip(rng.normal(-0.5, 0.2, (49, 1)), -1, 1)
    rows = 10 if kind == "persons" else 1
    data = np.vstack([shared, np.ones((rows, 1))])
    if kind == "replace-one":
        return Dataset(data), Dataset(np.vstack([shared, -np.ones((1, 1))]))
    groups = np.minimum(np.arange(len(data)), 49) if kind == "persons" else None
    return Dataset(data, groups), Dataset(shared, None if groups is None else groups[:49])


def audited(name, kind, fits, **more):
    make = partial(tiny, name, **more)
    found = audit_fit(make, *neighbours_of_fifty(kind), fits, _views(name))
    print(found.finding())
    assert not found.violated, found.finding()
    # Enough of them that what is claimed could have been refuted.
    assert fits < 5000 or found.evidence.reach > found.evidence.claimed_mu


@pytest.mark.parametrize("neighbours", RELATIONS)
@pytest.mark.parametrize("name", ["KMeans", "GaussianMixture", "FactorAnalysis"])
def test_twenty_thousand_fits(name, neighbours):
    """Ten thousand on each of two neighbouring data sets."""
    audited(name, neighbours, FITS // 2, neighbours=neighbours)


@pytest.mark.parametrize("name", ["KMeans", "GaussianMixture", "FactorAnalysis"])
def test_ten_thousand_fits_that_find_their_bounds(name):
    audited(name, "add-remove", FITS // 4, bounds=None)


@pytest.mark.parametrize("name", ["KMeans", "GaussianMixture", "FactorAnalysis"])
def test_ten_thousand_fits_of_persons(name):
    audited(name, "persons", FITS // 4)
