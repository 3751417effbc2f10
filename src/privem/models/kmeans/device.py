"""Sums for k-means on an accelerator."""

from __future__ import annotations

import numpy as np

from ...blocks.device import bounded_records, placed
from ...data.device import DeviceRows, on_device
from ...kernels.cuda import Box
from ...kernels.tensor_bounded import bounded_nearest
from ...kernels.tensor_nearest import nearest_sums
from ...kernels.tensor_profiles import cells
from ...kernels.tensors import Pieces
from ...linalg import svec
from .grid import CellCounts, GridQuery
from .model import ClusterSums, NearestQuery
from .query import BoundedClusterQuery, BoundedClusterSums


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


@on_device.register
def bounded(query: BoundedClusterQuery, rows: DeviceRows) -> BoundedClusterSums:
    """The same of bounded records; which centre is nearest is exact, as in NumPy."""
    records, w = bounded_records(rows, query.cap_weight), query.weights
    region = query.region
    box = None if region.ball else Box(region.centre, region.scale, region.limit)
    count, total, square = bounded_nearest(
        records,
        query.lattice_centres,
        query.step,
        placed(region, records),
        query.spread if query.local else None,
        w.radius,
        Pieces(448, 32),  # no more than the least number of rows in a block on the host
        box,
    )
    pooled = np.asarray([w.w2 * square]) if query.local else None
    return BoundedClusterSums(w.w0 * count, w.w1 * total, pooled)


@on_device.register
def grid(query: GridQuery, rows: DeviceRows) -> CellCounts | None:
    """Counts of cells, where all records count one."""
    records = bounded_records(rows, query.cap_weight)
    if records.weight is not None:
        return None
    place = placed(query.region, records)
    return CellCounts(cells(records, place, query.middle, query.axes, query.edges))
