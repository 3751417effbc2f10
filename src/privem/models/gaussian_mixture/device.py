"""Sums for Gaussian mixtures on an accelerator."""

from __future__ import annotations

import numpy as np

from ...data.device import DeviceRows, on_device
from ...kernels.tensor_mixture import exact_sums, responsibility_sums
from ...kernels.tensor_nearest import shared_moments
from ...linalg import svec
from .model import AssignedQuery, MixtureQuery, MixtureSums


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
