"""Counts and moments on an accelerator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from ..core import Block, Scratch
from ..data.device import DeviceRows, on_device
from ..kernels.tensor_bounded import clamped, pulled
from ..kernels.tensor_nearest import column_sums, moment_sums
from ..kernels.tensor_profiles import Values, place_counts, profile, value_sum
from ..kernels.tensors import Place, Tensor, Tensors, Work
from ..linalg import RunningSum, svec
from .histograms import Count, CountQuery
from .log_density import ContestQuery
from .moments import Moments, MomentsQuery, Sums, SumsQuery
from .profile import PIECES, ColumnProfiles, ColumnsQuery, Profile, ProfileQuery
from .region import Region
from .robust_mean import MeanSums


def bounded_records(rows: DeviceRows, cap: float) -> Tensors:
    """The rows in float64, their weights within [0, cap], as :func:`blocks.sensitivity.capped`."""
    records = rows.records()
    weight, torch = records.weight, records.work.torch
    if weight is not None:
        none, most = (torch.full_like(weight[:1], v) for v in (0.0, cap))
        weight = torch.fmin(torch.fmax(weight, none), most)
    elif cap < 1:
        weight = torch.full((rows.count,), cap, dtype=torch.float64, device=rows.device)
    return replace(records, weight=weight)


def placed(region: Region, records: Tensors) -> Place:
    """Records in unit coordinates, pulled into a region, to the last bit as on the host."""
    return pulled(records.work, region.centre, region.scale, region.limit, region.ball)


def inside(region: Region, work: Work) -> Callable[[Tensor], Tensor]:
    """Records (d, b) in the data's coordinates, pulled into a region."""
    low, high = region.sides
    return clamped(work, low, high, region.centre, region.scale, region.ball)


@singledispatch
def value_of(what: Any, records: Tensors) -> tuple[int, Values] | None:
    """The number of each record that a profile or a density is about, and its working memory."""
    return None


@on_device.register(ProfileQuery)
def profiled(query: ProfileQuery, rows: DeviceRows) -> Profile | None:
    """The profile of a number, where all records count one."""
    records = bounded_records(rows, query.cap_weight)
    found = value_of(query, records)
    if found is None or records.weight is not None:
        return None
    return Profile(profile(records, *found, query.grid))


@on_device.register
def contest(query: ContestQuery, rows: DeviceRows) -> MeanSums | None:
    """How much more likely records are under one density than under another."""
    records = bounded_records(rows, query.cap_weight)
    first, second = (value_of(density, records) for density in (query.first, query.second))
    if first is None or second is None:
        return None
    (numbers, one), (more, other) = first, second

    def gain(x: Tensor) -> Tensor:
        return one(x).sub_(other(x))

    return MeanSums(np.atleast_1d(value_sum(records, numbers + more, gain, query.limit)))


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


@on_device.register
def columns(query: ColumnsQuery, rows: DeviceRows) -> ColumnProfiles | None:
    """The profiles of all columns, where all records count one."""
    records, limit = bounded_records(rows, query.cap_weight), query.region.limit
    if records.weight is not None:
        return None
    factor = np.divide(PIECES / 2, limit, out=np.zeros_like(limit), where=limit > 0)
    place = placed(query.region, records)
    return ColumnProfiles(place_counts(records, place, factor, PIECES))
