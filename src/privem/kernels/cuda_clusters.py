"""Private sums of the records nearest to each centre by CUDA C++: ``clusters.cu``.

As :mod:`privem.models.kmeans.query` defines them, of records in a box. See
:mod:`privem.kernels.cuda` for when kernels are used, and ``docs/proofs/device.md`` for their
rounding errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..linalg import Array
from .cuda import Box, trusted, usable
from .cuda_differences import made_up
from .launches import collected, held_constants, launch, processors_of, source_of
from .tensors import Tensors

_THREADS = 128
# Bytes of shared memory of a processor, and what is not for sums of a block.
_PROCESSOR, _BESIDES = 228 * 2**10, 3 * 2**10
# Columns that a thread has registers for, this record's and the next one's.
_COLUMNS = 40
# So many sums of a number are collected by TwoSum at most; and records of such a sum.
_PARTS, _RUN = 2**26, 448

Sums = tuple[Array, Array, float]


@dataclass(frozen=True)
class Clusters:
    """What a kernel is compiled for."""

    d: int
    k: int
    short: bool
    """Whether the rows are float32."""
    local: bool
    """Whether records are measured from their centre."""
    entry = "clusters"
    # Labels are exact: sums are compared as those of mixtures are.
    single, hard, bounded = False, False, True

    @property
    def numbers(self) -> int:
        """Sums of a thread."""
        return self.k * (self.d + 1) + 1

    @property
    def shared(self) -> int:
        """Bytes of shared memory that a block asks for."""
        return 8 * self.numbers * _THREADS

    @property
    def resident(self) -> int:
        """Blocks of a processor."""
        return min(2, _PROCESSOR // (self.shared + _BESIDES))

    @property
    def lanes(self) -> int:
        """Whether there is a kernel."""
        return int(self.resident > 0 and self.d <= _COLUMNS)

    def source(self) -> str:
        """The kernel's source."""
        names = {
            "D": self.d,
            "K": self.k,
            "IN": "float" if self.short else "double",
            "SHORT": int(self.short),
            "LOCAL": int(self.local),
            "THREADS": _THREADS,
            "RESIDENT": self.resident,
        }
        return source_of(names, "rows.cu", "clusters.cu")


def bounded_clusters(
    records: Tensors,
    centres: Array,
    step: float,
    spread: float | None,
    radius: float,
    box: Box,
    portable: Callable[[Tensors], Sums],
) -> Sums | None:
    """Counts (K,), sums (K, d) and the summed squares; see ``tensor_bounded.bounded_nearest``.

    ``None`` where the compiled kernel is not to be used.
    """
    k, d = centres.shape
    shape = Clusters(d, k, records.X.element_size() == 4, spread is not None)
    module, torch = usable(records, shape), records.work.torch
    if module is None:
        return None
    blocks = processors_of(records.X, torch) * shape.resident
    threads = blocks * _THREADS
    if records.count // _RUN + threads >= _PARTS:
        return None
    scores = np.concatenate([-0.5 * (centres**2).sum(axis=1, keepdims=True), centres], axis=1)
    sides = np.stack([box.centre, 1.0 / box.scale, box.limit])
    put = {"box": records.work.put(sides), "table": records.work.put(scores)}
    unit = 1.0 if spread is None else spread

    def ours(some: Tensors) -> tuple[Array, float]:
        X = some.X
        out = torch.zeros((2, shape.numbers, threads, 1), dtype=torch.float64, device=X.device)
        given: tuple[Any, ...] = (X, step, unit, unit * radius, out, len(X))
        with held_constants(module, put, X, torch):
            launch(module, "clusters", (blocks, 1), _THREADS, X, given, torch, shape.shared)
        found = collected(out[0], out[1], torch)[:, 0]
        return found[:-1].reshape(k, d + 1), float(found[-1])

    def theirs(some: Tensors) -> tuple[Array, float]:
        count, total, square = portable(some)
        return np.concatenate([count[:, None], total], axis=1), square

    few = made_up(records, box)
    if not trusted(shape, lambda: ours(few), lambda: theirs(few)):
        return None
    found, square = ours(records)
    return found[:, 0], found[:, 1:], square
