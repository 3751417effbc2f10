"""How large an exact sum can be, from public bounds: so that it fits a grid and cannot wrap.

With |x_j - o_j| <= a_j for every record (o the query's origin, a from the agreed bounds) and n
records, a count is at most n, a sum n a_j, a product n a_i a_j, and a log-density is a linear form
in such products with public coefficients.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from ...blocks.moments import MomentsQuery, SumsQuery
from ...blocks.products import ProductsQuery
from ...linalg import svec, symmetric_pairs
from ...models.gaussian_mixture.assigned import AssignedQuery
from ...models.gaussian_mixture.model import MixtureQuery
from ...models.kmeans.model import NearestQuery
from ...tree import Array

__all__ = ["exact_grid", "per_record"]


def exact_grid(query: Any, low: Array, high: Array, rows: float, bits: int) -> tuple[Array, Array]:
    """Largest total and lattice step (a power of two) of each number of an exact sum.

    A total is below 2^bits steps, before each party's rounding adds half a step.
    """
    with np.errstate(over="ignore"):
        most = rows * per_record(query, low, high) * (1 + 2.0**-20)
    if not np.isfinite(most).all():
        raise ValueError("sums under these bounds overflow double precision; rescale the data")
    exponent = np.frexp(np.maximum(most, 1e-300))[1]
    return most, np.ldexp(1.0, exponent - bits)


def _reach(origin: Array, low: Array, high: Array) -> Array:
    return np.asarray(np.maximum(np.abs(low - origin), np.abs(high - origin)))


@singledispatch
def per_record(query: Any, low: Array, high: Array) -> Array:
    """The largest size of what one record adds to each number, in the order of ``ravel``."""
    raise TypeError(f"exact sums of {type(query).__name__} have no public bound")


@per_record.register
def _(query: SumsQuery, low: Array, high: Array) -> Array:
    return np.concatenate([[1.0, 1.0], _reach(np.zeros(len(low)), low, high)])


@per_record.register
def _(query: MomentsQuery, low: Array, high: Array) -> Array:
    a = _reach(query.origin, low, high)
    return np.concatenate([[1.0], a, a**2 if query.diagonal else svec(np.outer(a, a))])


@per_record.register
def _(query: ProductsQuery, low: Array, high: Array) -> Array:
    """A record adds (x - m)_j <x - m, v>, and |<x - m, v>| <= sum |x_i - m_i| |v_i|."""
    a = _reach(query.means, low, high)
    along = np.einsum("ki,kqi->kq", a, np.abs(query.vectors))
    return np.asarray(along[:, :, None] * a[:, None, :]).ravel()


@per_record.register
def _(query: NearestQuery, low: Array, high: Array) -> Array:
    a = _reach(query.origin, low, high)
    centres = query.clusters.centres
    k = len(centres)
    away = np.max([_reach(centre, low, high) @ _reach(centre, low, high) for centre in centres])
    parts = [np.ones(k), np.tile(a, k), np.array([away])]
    if query.second_moments:
        parts.append(np.tile(svec(np.outer(a, a)), k))
    return np.concatenate(parts)


@per_record.register
def _(query: AssignedQuery, low: Array, high: Array) -> Array:
    a = _reach(query.origin, low, high)
    k = len(query.centres)
    return np.concatenate([np.ones(k), np.tile(a, k), _second(query.covariance_type, a[None], k)])


@per_record.register
def _(query: MixtureQuery, low: Array, high: Array) -> Array:
    m = query.mixture
    k = len(m.means)
    a = _reach(query.origin, low, high)
    reaches = _reach(query.origins, low, high) if query.direct else np.tile(a, (k, 1))
    i, j = symmetric_pairs(len(a))
    squares = np.array([a @ a])
    products = {"full": a[i] * a[j], "square": a**2, "norm": squares, "linear": squares[:0]}
    features = np.concatenate([[1.0], a, products[query.features.kind]])
    log_density = float(np.max(np.abs(query.coefficients) @ features)) + np.log(k)
    if m.covariance_type == "tied":
        log_density += 0.5 * float(a @ np.abs(m.precisions[0]) @ a)
    parts = [np.ones(k), reaches.ravel()]
    if m.covariance_type != "tied" or query.direct:
        parts.append(_second(m.covariance_type, reaches if query.direct else a[None], k))
    return np.concatenate([*parts, [log_density]])


def _second(covariance_type: str, a: Array, k: int) -> Array:
    """Second moments of k components whose reaches are the rows of ``a``, or its only row."""
    match covariance_type:
        case "full":
            each = svec(a[:, :, None] * a[:, None, :])
        case "tied":
            return np.asarray(np.max(svec(a[:, :, None] * a[:, None, :]), axis=0))
        case "diag":
            each = a**2
        case _:
            each = np.einsum("ij,ij->i", a, a)[:, None]
    return np.tile(each, (k // len(a), 1)).ravel()
