"""Sums for Gaussian mixtures on an accelerator."""

from __future__ import annotations

import numpy as np

from ...blocks.device import bounded_records, inside, placed, value_of
from ...data.device import DeviceRows, on_device
from ...kernels.cuda import Box
from ...kernels.cuda_differences import densities
from ...kernels.mixture import PIECE
from ...kernels.tensor_bounded import by_differences, by_products, pooled_sums
from ...kernels.tensor_mixture import exact_sums, responsibility_sums
from ...kernels.tensor_nearest import shared_moments
from ...kernels.tensor_profiles import Values, log_density, squared_lengths
from ...kernels.tensors import Pieces, Tensor, Tensors
from ...kernels.whitened import POOLED_PIECE, pooled_tile_rows
from ...linalg import svec
from .density import GaussianLogDensity, RatioQuery
from .frame import RadialQuery
from .model import AssignedQuery, MixtureQuery, MixtureSums
from .query import TILES, BoundedQuery, BoundedSums
from .rounding import CAP

# Products that are added up before :class:`Total` collects them, at most.
_PRODUCTS = 32


@on_device.register
def mixture(query: MixtureQuery, rows: DeviceRows) -> MixtureSums | None:
    """Responsibility-weighted sums; in float32 only about a common origin, where that is enough."""
    m = query.mixture
    if m.background is not None:
        return None
    if not query.direct:
        found, evidence = responsibility_sums(
            rows.records(single=True), query.features, query.coefficients, query.origin
        )
        return query.of_features(found, evidence)
    kind = {"tied": "full"}.get(m.covariance_type, query.features.kind)
    count, total, second, evidence = exact_sums(
        rows.records(), m.means, m.whiteners, m.constants, kind
    )
    if kind == "full":
        second = svec(second)
    if m.covariance_type == "tied":
        second = second.sum(axis=0)
    return MixtureSums(count, total, second, np.asarray(evidence))


@on_device.register
def assigned(query: AssignedQuery, rows: DeviceRows) -> MixtureSums | None:
    """Sums under hard assignment; random shares are drawn on the host."""
    if query.seed is not None:
        return None
    kind = {"full": "full", "tied": "pooled", "diag": "square", "spherical": "norm"}
    kind_here = kind[query.covariance_type]
    count, total, second = shared_moments(
        rows.records(single=True), query.origin, query.centres - query.origin, kind_here
    )
    return MixtureSums(count, total, svec(second) if kind_here in ("full", "pooled") else second)


@on_device.register
def bounded(query: BoundedQuery, rows: DeviceRows) -> BoundedSums:
    """Clipped statistics, summed the way that the query charges for (``docs/proofs/device.md``)."""
    records = bounded_records(rows, query.cap_weight)
    place, m = placed(query.region, records), query.mixture
    k, d = m.means.shape
    region = query.region
    box = None if region.ball else Box(region.centre, region.scale, region.limit)
    if query.direct:
        found = by_differences(
            records,
            m.means,
            m.whiteners,
            m.constants,
            place,
            query.weights.radius,
            CAP,
            query.kind,
            Pieces(512, _PRODUCTS),
            box,
        )
        return query.of_sums(*query.of_differences(*found))
    if query.shared:
        most = TILES * pooled_tile_rows(k, d) // POOLED_PIECE
        pooled = pooled_sums(
            records,
            *query.spheres,
            query.errors.far,
            m.whiteners[0],
            place,
            query.weights.radius,
            query.wants_second,
            Pieces(POOLED_PIECE, min(_PRODUCTS, most)),
        )
        return query.of_sums(*query.of_pool(*pooled))
    linear = query.evaluation
    tile = linear.features.tile_rows(k)
    products = by_products(
        records,
        linear.features,
        linear.coefficients,
        linear.mixture.constants,
        place,
        query.radius,
        Pieces(min(tile, PIECE), min(_PRODUCTS, TILES * -(-tile // PIECE))),
        box,
    )
    return query.of_sums(*query.of_products(*products))


@value_of.register
def length(query: RadialQuery, records: Tensors) -> tuple[int, Values]:
    """Squared whitened lengths."""
    m, place = query.mixture, placed(query.region, records)
    return 2 * records.d, squared_lengths(records.work, place, m.means[0], m.whiteners[0])


@value_of.register
def density(what: GaussianLogDensity, records: Tensors) -> tuple[int, Values]:
    """The log-density, above its background if it has one."""
    m, work = what.mixture, records.work
    k, d = m.means.shape
    flat = m.background
    pulled = None if flat is None else inside(flat.region, work)
    level = None if flat is None else flat.level
    form = log_density(work, m.means, m.whiteners, m.constants, level, pulled)
    if flat is not None and not flat.region.ball:
        sides = flat.region.sides
        form = densities(records, m.means, m.whiteners, m.constants, sides, form, level)
    return (k + 2) * d + 4 * k, form


@value_of.register
def ratio(query: RatioQuery, records: Tensors) -> tuple[int, Values]:
    """The log-density of records in the region, from that of the uniform density on."""
    m, region, volume = query.mixture, query.region, query.region.log_volume
    numbers, form = density(GaussianLogDensity(m), records)
    pulled = inside(region, records.work)

    def portable(rows: Tensor) -> Tensor:
        return form(pulled(rows.T.to(records.work.double)).T)

    values: Values = portable
    if not region.ball:
        values = densities(records, m.means, m.whiteners, m.constants, region.sides, portable)
    return numbers + 2 * records.d, lambda rows: values(rows).add_(volume)
