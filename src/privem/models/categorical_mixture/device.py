"""Sums for latent classes on an accelerator."""

from __future__ import annotations

import numpy as np

from ...blocks.device import bounded_records
from ...data.device import DeviceRows, on_device
from ...kernels.tensor_classes import class_sums, pair_sums
from ...kernels.tensors import Pieces, Tensors
from ...linalg import svec
from .model import ClassQuery, ClassSums, block_rows
from .pairs import Pairs, PairsQuery


def _records(query: ClassQuery | PairsQuery, rows: DeviceRows) -> Tensors:
    return rows.records() if query.cap_weight is None else bounded_records(rows, query.cap_weight)


def _pieces(sizes: tuple[int, ...]) -> Pieces:
    """Both numbers together are at most the rows of a block on the host: its bound holds."""
    most = block_rows(sizes)
    records = min(512, max(48, most // 2 // 8 * 8))
    return Pieces(records, min(32, most - records))


@on_device.register
def classes(query: ClassQuery, rows: DeviceRows) -> ClassSums:
    """Expected counts and tables; exact, with the log-likelihood."""
    levels, logs = query.logs
    count, table, likelihood = class_sums(
        _records(query, rows), query.sizes, logs, levels, _pieces(query.sizes)
    )
    return ClassSums(count, table, np.asarray(likelihood) if query.cap_weight is None else None)


@on_device.register
def pairs(query: PairsQuery, rows: DeviceRows) -> Pairs:
    """Tables of all pairs of columns."""
    matrix = pair_sums(_records(query, rows), query.sizes, _pieces(query.sizes))
    return Pairs(svec(matrix / len(query.sizes)))
