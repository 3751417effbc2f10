"""Questions of mixtures, clusters and factors, and what every fit asks first."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...blocks.bounds import CELLS, OctaveQuery, PlaceQuery
from ...blocks.count import CountQuery
from ...blocks.moments import MomentsQuery, SumsQuery
from ...blocks.private_moments import BoundedMomentsQuery
from ...blocks.products import ProductsQuery
from ...blocks.region import Region
from ...blocks.sensitivity import MomentWeights
from ...models.gaussian_mixture.assigned import AssignedQuery
from ...models.gaussian_mixture.model import COVARIANCE_TYPES, Mixture, MixtureQuery
from ...models.gaussian_mixture.query import RECIPES, BoundedQuery
from ...models.kmeans.grid import GridQuery
from ...models.kmeans.model import Clusters, NearestQuery
from ...models.kmeans.query import BoundedClusterQuery, cluster_releases
from . import checks
from .checks import need

__all__ = ["FIELDS", "check"]

FIELDS: dict[type, tuple[str, ...]] = {
    SumsQuery: (),
    MomentsQuery: ("origin", "diagonal"),
    ProductsQuery: ("centres", "means", "vectors"),
    NearestQuery: ("clusters", "origin", "second_moments"),
    Clusters: ("centres",),
    MixtureQuery: ("mixture", "origin", "direct"),
    Mixture: ("covariance_type", "weights", "means", "covariances"),
    AssignedQuery: ("covariance_type", "origin", "centres"),
    CountQuery: ("cap_weight",),
    OctaveQuery: ("d",),
    PlaceQuery: ("width", "centre", "cells"),
    BoundedQuery: ("mixture", "region", "weights", "recipe", "rows", "cap_weight"),
    BoundedMomentsQuery: ("region", "weights", "cap_weight"),
    BoundedClusterQuery: ("centres", "region", "weights", "spread", "recipe", "cap_weight"),
    GridQuery: ("region", "middle", "axes", "edges", "cap_weight"),
    Region: ("centre", "scale", "limit", "ball"),
    MomentWeights: ("w0", "w1", "w2", "radius"),
}
# Without a bound on what one record adds.
_EXACT = (SumsQuery, MomentsQuery, ProductsQuery, NearestQuery, MixtureQuery, AssignedQuery)

# More than any plan asks for, and few enough to hold.
_MOST_CELLS = 2**20


def check(query: Any, d: int, private: bool) -> bool:
    """Whether the query is one of these; raises unless it is then sound."""
    need(not (private and isinstance(query, _EXACT)))
    match query:
        case SumsQuery():
            pass
        case MomentsQuery(origin=origin, diagonal=diagonal):
            checks.array(origin, (d,))
            need(isinstance(diagonal, bool))
            checks.held(1, 1, 1 + d + (d if diagonal else d * (d + 1) // 2))
        case ProductsQuery(centres=centres, means=means, vectors=vectors):
            checks.table(centres, d)
            checks.array(means, centres.shape)
            need(isinstance(vectors, np.ndarray) and vectors.ndim == 3 and vectors.shape[1] > 0)
            k, q = len(centres), vectors.shape[1]
            checks.array(vectors, (k, q, d))
            checks.held(k + q, query.block_rows, k * q * d)
        case NearestQuery(clusters=clusters, origin=origin, second_moments=second):
            checks.array(origin, (d,))
            need(isinstance(clusters, Clusters) and isinstance(second, bool))
            checks.table(clusters.centres, d)
            k = len(clusters.centres)
            checks.held(k, query.block_rows, k * (1 + d + d * d * second) + 1)
        case MixtureQuery(mixture=mixture, origin=origin, direct=direct):
            checks.array(origin, (d,))
            need(isinstance(direct, bool))
            _mixture(mixture, d)
            k, shape = len(mixture.means), mixture.covariance_type
            checks.held(k, query.block_rows, _sums(k, d, shape))
        case AssignedQuery(covariance_type=shape, origin=origin, centres=centres):
            need(shape in COVARIANCE_TYPES)
            checks.array(origin, (d,))
            checks.table(centres, d)
            checks.held(len(centres), query.block_rows, _sums(len(centres), d, shape))
        case CountQuery(cap_weight=cap):
            checks.ordinary(cap)
        case OctaveQuery(d=features):
            need(type(features) is int and features == d)
        case PlaceQuery(width=width, centre=centre, cells=cells):
            need(type(cells) is int and cells & (cells - 1) == 0 and 2 <= cells <= CELLS)
            checks.array(width, (d,))
            checks.array(centre, (d,))
            need((width > 0).all())
        case BoundedQuery():
            _mixture(query.mixture, d)
            _bounded(query, d, RECIPES)
            checks.number(query.rows, 0.0)
            k = len(query.mixture.means)
            checks.held(k, query.block_rows, _sums(k, d, query.mixture.covariance_type))
        case BoundedMomentsQuery():
            _bounded(query, d, None)
            checks.held(1, 1, d + d * (d + 1) // 2)
        case BoundedClusterQuery():
            checks.table(query.centres, d)
            checks.ordinary(query.spread)
            _bounded(query, d, ("whitened", "joint", "gg", "ll", "dplloyd"))
            need(cluster_releases(query.recipe, len(query.centres), d))
            # Exact labels rest on coordinates within [-1, 1] (docs/proofs/release.md, section 5).
            need((query.region.limit <= 1).all())
            k = len(query.centres)
            checks.held(k, query.block_rows, k * (2 + d))
        case GridQuery():
            _grid(query, d)
        case _:
            return False
    return True


def _grid(query: GridQuery, d: int) -> None:
    """Whatever the axes and edges, a record counts in one cell: only their form matters."""
    checks.region(query.region, d)
    checks.array(query.middle, (d,))
    checks.table(query.axes, d)
    checks.ordinary(query.cap_weight)
    need(isinstance(query.edges, tuple) and 0 < len(query.edges) <= len(query.axes))
    for ends in query.edges:
        need(isinstance(ends, np.ndarray) and ends.ndim == 1 and len(ends) > 1)
        need(ends.dtype == np.float64 and (np.diff(ends) > 0).all())
    need(query.size <= _MOST_CELLS)


def _sums(k: int, d: int, shape: str) -> int:
    """How many numbers a mixture's sums are, at most."""
    return k * (2 + d + (d * d if shape == "full" else d)) + d * d


def _mixture(mixture: Any, d: int) -> None:
    need(isinstance(mixture, Mixture) and mixture.covariance_type in COVARIANCE_TYPES)
    checks.table(mixture.means, d)
    k = len(mixture.means)
    checks.array(mixture.weights, (k,))
    shapes = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
    checks.array(mixture.covariances, shapes[mixture.covariance_type])
    need((mixture.weights > 0).all())
    if mixture.covariance_type in ("diag", "spherical"):
        need((mixture.covariances > 0).all())
    try:
        finite = np.isfinite(mixture.whiteners).all() and np.isfinite(mixture.constants).all()
    except np.linalg.LinAlgError:
        finite = False
    need(finite)


def _bounded(query: Any, d: int, recipes: Any) -> None:
    """Region, weights and cap; records measured from the centre must lie within the radius."""
    checks.region(query.region, d)
    checks.moment_weights(query.weights)
    checks.ordinary(query.cap_weight)
    if recipes is not None:
        need(isinstance(query.recipe, str) and query.recipe in recipes)
    if recipes is None or query.recipe != "whitened":
        need(query.weights.radius >= query.region.reach)
