"""Counts and moments on an accelerator."""

from __future__ import annotations

import numpy as np

from ..core import Block, Scratch
from ..data.device import DeviceRows, on_device
from ..kernels.tensor_nearest import column_sums, moment_sums
from ..linalg import RunningSum, svec
from .histograms import Count, CountQuery
from .moments import Moments, MomentsQuery, Sums, SumsQuery


@on_device.register
def count(query: CountQuery, rows: DeviceRows) -> Count | None:
    """The number of records, or the sum of their weights: the host has these."""
    total, scratch, size = RunningSum[Count](), Scratch(), query.block_rows
    for start in range(0, rows.count, size):
        weight = None if rows.weight is None else rows.weight[start : start + size]
        b = min(size, rows.count - start)
        total.add(query(Block(np.empty((b, 0)), weight, start), scratch))
    return total.value()


@on_device.register
def sums(query: SumsQuery, rows: DeviceRows) -> Sums:
    """Rows, weight and column sums."""
    weight, total = column_sums(rows.records())
    return Sums(np.asarray(float(rows.count)), np.asarray(weight), total)


@on_device.register
def moments(query: MomentsQuery, rows: DeviceRows) -> Moments:
    """Weight, sum and second moment. In float64: all later sums are taken about what they say."""
    weight, total, second = moment_sums(rows.records(), query.origin, query.diagonal)
    return Moments(np.asarray(weight), total, second if query.diagonal else svec(second))
