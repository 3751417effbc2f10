"""Sums for k-means on an accelerator."""

from __future__ import annotations

import numpy as np

from ...data.device import DeviceRows, on_device
from ...kernels.tensor_nearest import nearest_sums
from ...linalg import svec
from .model import ClusterSums, NearestQuery


@on_device.register
def nearest(query: NearestQuery, rows: DeviceRows) -> ClusterSums:
    """Counts and sums of the records nearest to each centre."""
    count, total, inertia, second = nearest_sums(
        rows.records(single=True),
        query.origin,
        query.clusters.centres - query.origin,
        query.second_moments,
    )
    packed = None if second is None else svec(second)
    return ClusterSums(count, total, np.asarray(inertia), packed)
