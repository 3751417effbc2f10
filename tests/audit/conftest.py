"""Seeded noise, and one query of every kind."""

import os
from functools import partial

import numpy as np
import pytest

from privem.models.bounds import OctaveQuery, PlaceQuery
from privem.models.count import CountQuery
from privem.models.gaussian_mixture import Mixture
from privem.models.private_kmeans import BoundedClusterQuery
from privem.models.private_mixture import BoundedQuery
from privem.models.private_moments import BoundedMomentsQuery
from privem.models.region import Region
from privem.models.sensitivity import MomentWeights

D = 2
REGION = Region.box(-np.ones(D), np.ones(D))
COVARIANCES = {
    "full": np.stack([0.01 * np.eye(D)] * 2),
    "tied": 0.01 * np.eye(D),
    "diag": np.full((2, D), 0.01),
    "spherical": np.full(2, 0.01),
}


def _mixture(recipe, shape):
    means = np.array([[-0.6, -0.6], [0.6, 0.6]])
    mixture = Mixture(shape, np.array([0.5, 0.5]), means, COVARIANCES[shape])
    if recipe == "whitened":
        weights = MomentWeights.balanced(D, 3.0)
    elif recipe == "joint":
        weights = MomentWeights.balanced(D, REGION.reach)
    else:
        weights = MomentWeights(1.0, 1.0, 1.0, REGION.reach)
    return BoundedQuery(mixture, REGION, weights, recipe, 100.0)


def _clusters(recipe):
    centres = np.array([[-0.6, -0.6], [0.6, 0.6]])
    r = 3.0 if recipe == "whitened" else REGION.reach
    weights = MomentWeights(0.6, 0.5 / r, 0.3 / r**2 if recipe == "whitened" else 0.0, r)
    return BoundedClusterQuery(centres, REGION, weights, 0.1, recipe)


def _moments():
    return BoundedMomentsQuery(REGION, MomentWeights.balanced(D, REGION.reach, count=False))


QUERIES = {
    "count": CountQuery,
    "moments": _moments,
    **{f"mixture {r}": partial(_mixture, r, "full") for r in ("whitened", "joint", "ggg", "llg")},
    "mixture laplace": partial(_mixture, "laplace", "full"),
    **{f"mixture {s}": partial(_mixture, "whitened", s) for s in ("tied", "diag", "spherical")},
    **{f"k-means {r}": partial(_clusters, r) for r in ("whitened", "joint", "gg", "ll", "dplloyd")},
    "octaves": partial(OctaveQuery, D),
    "places": lambda: PlaceQuery(np.full(D, 0.25), np.zeros(D)),
}


@pytest.fixture(params=list(QUERIES))
def query(request):
    """One query of every kind that a private fit asks."""
    return QUERIES[request.param]()


@pytest.fixture
def make_query():
    return lambda name: QUERIES[name]()


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    """All noise from one seed: every test here gives the same answer every time."""
    generator, real, owner = np.random.default_rng(20240607), os.urandom, os.getpid()
    # A forked child goes its own way, as with the operating system's bytes.
    monkeypatch.setattr(
        os, "urandom", lambda n: generator.bytes(n) if os.getpid() == owner else real(n)
    )
