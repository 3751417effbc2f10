"""Which public values travel, and what a party checks before it believes one.

A query arrives from a server that a party does not trust. Its sensitivity is derived beside its
code under conditions (a radius that covers the region, positive scales, matching shapes) which a
plan always meets and a forged message need not. They are checked here, so that what a party
charges bounds what it sends. Fields that are part of a query's proof (``view``, ``block_rows``)
never travel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import Spent
from ..models.assigned import AssignedQuery
from ..models.bounds import OctaveQuery, PlaceQuery
from ..models.count import CountQuery
from ..models.gaussian_mixture import COVARIANCE_TYPES, Mixture, MixtureQuery
from ..models.kmeans import Clusters, NearestQuery
from ..models.moments import MomentsQuery, SumsQuery
from ..models.private_grid import GridQuery
from ..models.private_kmeans import BoundedClusterQuery, cluster_releases
from ..models.private_mixture import RECIPES, BoundedQuery
from ..models.private_moments import BoundedMomentsQuery
from ..models.region import Region
from ..models.sensitivity import MomentWeights
from ..noise.discrete import Discrete
from ..noise.exact import Exact
from .codec import BadMessage, decode, encode

__all__ = ["check_query", "pack", "unpack"]

# What travels, by name: the class and the fields that do.
_FIELDS: dict[type, tuple[str, ...]] = {
    SumsQuery: (),
    MomentsQuery: ("origin",),
    NearestQuery: ("clusters", "origin", "second_moments"),
    Clusters: ("centres",),
    MixtureQuery: ("mixture", "origin", "direct"),
    Mixture: ("covariance_type", "weights", "means", "covariances"),
    AssignedQuery: ("covariance_type", "origin", "centres"),
    CountQuery: ("cap_weight",),
    OctaveQuery: ("d",),
    PlaceQuery: ("width", "centre"),
    BoundedQuery: ("mixture", "region", "weights", "recipe", "rows", "cap_weight"),
    BoundedMomentsQuery: ("region", "weights", "cap_weight"),
    BoundedClusterQuery: ("centres", "region", "weights", "spread", "recipe", "cap_weight"),
    GridQuery: ("region", "middle", "axes", "edges", "cap_weight"),
    Region: ("centre", "scale", "limit", "ball"),
    MomentWeights: ("w0", "w1", "w2", "radius"),
    Discrete: ("multiplier", "neighbours", "rows"),
    Exact: (),
    Spent: ("name", "kind", "dimension", "sensitivity", "slack", "grid", "steps"),
}
_BY_NAME = {cls.__name__: cls for cls in _FIELDS}


def _take_apart(value: Any) -> tuple[str, dict[str, Any]] | None:
    fields = _FIELDS.get(type(value))
    if fields is None:
        return None
    if getattr(value, "seed", None) is not None:
        raise TypeError("random responsibilities go by row number, which a federation has not")
    return type(value).__name__, {name: getattr(value, name) for name in fields}


def _build(name: str, fields: dict[str, Any]) -> Any:
    cls = _BY_NAME.get(name)
    if cls is None or set(fields) != set(_FIELDS[cls]):
        raise BadMessage("the message holds a value of an unknown kind")
    return cls(**fields)


def pack(kind: str, body: Any) -> bytes:
    """A message that may hold public values."""
    return encode(kind, body, _take_apart)


def unpack(message: bytes, kind: str) -> dict[str, Any]:
    """The body of a message of this kind, a mapping; raises :class:`BadMessage`."""
    found, body = decode(message, _build)
    if found != kind or not isinstance(body, dict):
        raise BadMessage(f"expected a message of kind {kind!r}")
    return body


# More than any plan asks for, and few enough to hold.
_MOST_CELLS = 2**20


def _need(condition: Any) -> None:
    if not bool(condition):
        raise BadMessage("the question does not meet the conditions of its own proof")


def _array(value: Any, shape: tuple[int, ...]) -> None:
    _need(isinstance(value, np.ndarray) and value.dtype == np.float64 and value.shape == shape)


# Sensitivities are products of a few such numbers: none of them under- or overflows.
_SMALL, _LARGE = 2.0**-100, 2.0**100


def _number(value: Any, low: float, strict: bool = False) -> None:
    _need(type(value) in (float, int) and math.isfinite(value))
    _need(value > low if strict else value >= low)


def _ordinary(value: Any, zero: bool = False) -> None:
    """A positive number (or zero, if that may be) of a magnitude whose powers are numbers too."""
    _number(value, 0.0)
    _need(_SMALL <= value <= _LARGE or (zero and value == 0))


def check_query(query: Any, d: int) -> None:
    """Raise :class:`BadMessage` unless the query is sound for rows of ``d`` features."""
    match query:
        case SumsQuery():
            pass
        case MomentsQuery(origin=origin):
            _array(origin, (d,))
        case NearestQuery(clusters=clusters, origin=origin, second_moments=second):
            _array(origin, (d,))
            _need(isinstance(clusters, Clusters) and isinstance(second, bool))
            _centres(clusters.centres, d)
        case MixtureQuery(mixture=mixture, origin=origin, direct=direct):
            _array(origin, (d,))
            _need(isinstance(direct, bool))
            _mixture(mixture, d)
        case AssignedQuery(covariance_type=shape, origin=origin, centres=centres):
            _need(shape in COVARIANCE_TYPES)
            _array(origin, (d,))
            _centres(centres, d)
        case CountQuery(cap_weight=cap):
            _ordinary(cap)
        case OctaveQuery(d=features):
            _need(type(features) is int and features == d)
        case PlaceQuery(width=width, centre=centre):
            _array(width, (d,))
            _array(centre, (d,))
            _need((width > 0).all())
        case BoundedQuery():
            _mixture(query.mixture, d)
            _bounded(query, d, RECIPES)
            _number(query.rows, 0.0)
        case BoundedMomentsQuery():
            _bounded(query, d, None)
        case BoundedClusterQuery():
            _centres(query.centres, d)
            _ordinary(query.spread)
            _bounded(query, d, ("whitened", "joint", "gg", "ll", "dplloyd"))
            _need(cluster_releases(query.recipe, len(query.centres), d))
            # Exact labels rest on coordinates within [-1, 1] (docs/proofs/release.md, section 5).
            _need((query.region.limit <= 1).all())
        case GridQuery(region=region, middle=middle, axes=axes, edges=edges, cap_weight=cap):
            # Whatever the axes and edges, a record counts in one cell: only their form matters.
            _region(region, d)
            _array(middle, (d,))
            _array(axes, (d, d))
            _ordinary(cap)
            _need(isinstance(edges, tuple) and 0 < len(edges) <= d)
            for ends in edges:
                _need(isinstance(ends, np.ndarray) and ends.ndim == 1 and len(ends) > 1)
                _need(ends.dtype == np.float64 and (np.diff(ends) > 0).all())
            _need(query.size <= _MOST_CELLS)
        case _:
            raise BadMessage("the question is none that a party answers")


def _centres(centres: Any, d: int) -> None:
    _need(isinstance(centres, np.ndarray) and centres.ndim == 2 and len(centres) > 0)
    _array(centres, (len(centres), d))


def _mixture(mixture: Any, d: int) -> None:
    _need(isinstance(mixture, Mixture) and mixture.covariance_type in COVARIANCE_TYPES)
    _centres(mixture.means, d)
    k = len(mixture.means)
    _array(mixture.weights, (k,))
    shapes = {"full": (k, d, d), "tied": (d, d), "diag": (k, d), "spherical": (k,)}
    _array(mixture.covariances, shapes[mixture.covariance_type])
    _need((mixture.weights > 0).all())
    if mixture.covariance_type in ("diag", "spherical"):
        _need((mixture.covariances > 0).all())
    try:
        finite = np.isfinite(mixture.whiteners).all() and np.isfinite(mixture.constants).all()
    except np.linalg.LinAlgError:
        finite = False
    _need(finite)


def _region(region: Any, d: int) -> None:
    _need(isinstance(region, Region) and isinstance(region.ball, bool))
    for part in (region.centre, region.scale, region.limit):
        _array(part, (d,))
    _need((region.scale > 0).all() and (region.limit >= 0).all())
    _ordinary(float(region.limit.max()))
    _need(not region.ball or (region.limit == 1).all())


def _bounded(query: Any, d: int, recipes: Any) -> None:
    """Region, weights and cap; records measured from the centre must lie within the radius."""
    region, weights = query.region, query.weights
    _region(region, d)
    _need(isinstance(weights, MomentWeights))
    for part in (weights.w0, weights.w1, weights.w2):
        _ordinary(part, zero=True)
    _ordinary(weights.radius)
    _ordinary(query.cap_weight)
    if recipes is not None:
        _need(isinstance(query.recipe, str) and query.recipe in recipes)
    if recipes is None or query.recipe != "whitened":
        _need(weights.radius >= region.reach)
