"""Seeded noise, and one query of every kind."""

from functools import partial

import numpy as np
import pytest

from privem.blocks.bounding import Clip, Robust
from privem.blocks.gradient import BoundedGradientQuery, Squares
from privem.blocks.histograms import (
    CountQuery,
    NormQuery,
    OctaveQuery,
    OutsideQuery,
    PlaceQuery,
)
from privem.blocks.log_density import ClippedLogs, ContestQuery, DisagreementQuery, LogDensityQuery
from privem.blocks.region import Region
from privem.blocks.robust_mean import RobustMeanQuery
from privem.blocks.sensitivity import MomentWeights
from privem.blocks.shrinkage import clip_radius
from privem.models.categorical_mixture.model import Classes, ClassLogDensity, ClassQuery
from privem.models.categorical_mixture.pairs import PairsQuery
from privem.models.factor_analysis.query import BoundedMomentsQuery
from privem.models.gaussian_mixture.density import GaussianLogDensity
from privem.models.gaussian_mixture.model import Mixture
from privem.models.gaussian_mixture.query import BoundedQuery
from privem.models.kmeans.query import BoundedClusterQuery
from privem.models.missing_regression.query import (
    MissingCovariateGradient,
    ObservedMomentsQuery,
    ScalesQuery,
)
from privem.models.regression_mixture.directions import ResidualDirections
from privem.models.regression_mixture.model import Bounded, RegressionQuery, Regressions
from privem.models.symmetric.query import (
    DirectionsQuery,
    SquaresQuery,
    SymmetricGradient,
    SymmetricRegressionGradient,
)
from privem.models.table_mixture import fitting
from privem.models.table_mixture.tables import CellCountsQuery, TablesQuery

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


# One feature and a target, as the two columns are for a regression.
SIDE = Region.box(-np.ones(1), np.ones(1))


def _gradient(model, bounding):
    if model is SymmetricGradient:
        squares = Squares(0.2, 3.0)
        return BoundedGradientQuery(
            model(np.array([0.5, 0.5]), 0.1), bounding, REGION, squares=squares
        )
    return BoundedGradientQuery(model(np.array([0.7]), 0.1), bounding, SIDE, SIDE)


def _classes():
    # Sure of its class: values of 1 in both columns are one, everything else the other.
    profiles = np.array([[1e-9, 1 - 1e-9] * 2, [0.5, 0.5] * 2])
    return ClassQuery(Classes(np.array([0.5, 0.5]), profiles), (2, 2), 1.0)


def _contest():
    # Twos in both columns are explained by the first alone, other things by the second alone.
    profiles = np.array([[1e-9, 1 - 1e-9] * 2])
    both = (Classes(np.ones(1), table) for table in (profiles, profiles[:, ::-1].copy()))
    return ContestQuery(*(ClassLogDensity(classes, (2, 2)) for classes in both), 3.0)


def _regressions(components):
    lines = Regressions(
        np.full(components, 1 / components),
        np.array([[1.0, 0.0], [-1.0, 0.0]])[:components],
        np.full(components, 0.01),
        10 * np.eye(1),
        np.zeros(1),
    )
    if components == 1:
        return ResidualDirections(lines, REGION)
    w = MomentWeights.balanced(D, clip_radius(D))
    return RegressionQuery(lines, Bounded(REGION, w))


def _densities(models, kind=LogDensityQuery, *clip):
    centres = np.array([[-0.6, -0.6], [0.6, 0.6]])
    both = [Mixture("full", np.array([0.5, 0.5]), centres, COVARIANCES["full"])]
    both.append(Mixture("spherical", np.ones(1), centres[:1], np.array([0.01])))
    densities = tuple(map(GaussianLogDensity, both[:models]))
    high = max(density.peak for density in densities)
    return kind(ClippedLogs(densities, high - 12, high), *clip)


QUERIES = {
    "octaves": lambda: OctaveQuery(np.zeros(D)),
    "outside": lambda: OutsideQuery((1,) * D, np.zeros(D), np.full(D, 0.5)),
    "classes": _classes,
    "pairs": lambda: PairsQuery((2, 2), 1.0),
    "cells": lambda: CellCountsQuery((2, 3), 1.0),
    "tables": lambda: TablesQuery(((0, 1), (0, 1, 1)), ((0, 1),), None, 1.0),
    "contest": _contest,
    "regressions": partial(_regressions, 2),
    "residuals": partial(_regressions, 1),
    "scales": lambda: ScalesQuery(SIDE, SIDE, (1.0, 1.0)),
    "observed moments": lambda: ObservedMomentsQuery(SIDE, SIDE, (1.0, 1.0)),
    "mean clip": lambda: RobustMeanQuery(np.zeros(D), np.ones(D), Clip(1.0)),
    "mean robust": lambda: RobustMeanQuery(np.zeros(D), np.ones(D), Robust(0.6, 1.73)),
    "gradient mixture": partial(_gradient, SymmetricGradient, Clip(0.8)),
    "gradient regression": partial(_gradient, SymmetricRegressionGradient, Robust(0.05, 1.73)),
    "gradient missing": partial(_gradient, MissingCovariateGradient, Clip(0.3)),
    "directions": lambda: DirectionsQuery(REGION, 0.5),
    "signed directions": lambda: DirectionsQuery(SIDE, 0.5, None, SIDE, 0.01),
    "squares": lambda: SquaresQuery(SIDE, (1.0, 1.0), SIDE),
    "norms": lambda: NormQuery((1, 1)),
    "count": CountQuery,
    "log-densities": partial(_densities, 1),
    "scores": partial(_densities, 2, LogDensityQuery, 0.5, False),
    "disagreements": partial(_densities, 2, DisagreementQuery),
    "moments": _moments,
    **{f"mixture {r}": partial(_mixture, r, "full") for r in ("whitened", "joint", "ggg", "llg")},
    "mixture laplace": partial(_mixture, "laplace", "full"),
    **{f"mixture {s}": partial(_mixture, "whitened", s) for s in ("tied", "diag", "spherical")},
    **{f"k-means {r}": partial(_clusters, r) for r in ("whitened", "joint", "gg", "ll", "dplloyd")},
    "places": lambda: PlaceQuery(np.full(D, 2.0**-30)),
}


@pytest.fixture(params=list(QUERIES))
def query(request):
    """One query of every kind that a private fit asks."""
    return QUERIES[request.param]()


@pytest.fixture
def make_query():
    return lambda name: QUERIES[name]()


@pytest.fixture(autouse=True)
def one_search(monkeypatch):
    """Most of a table's fit is eight searches of what was released, which is public: one will do.

    What is asked of the data, its bounds, noise and price stay as they are.
    """
    monkeypatch.setattr(fitting, "_STARTS", 1)


@pytest.fixture(autouse=True)
def seeded(seeded):
    """Every test here gives the same answer every time."""
    return seeded
