"""Exact sums by CUDA C++ that is compiled when it is first needed: ``sums.cu``.

The kernel is made for one number of columns and components, so all that is added up stays in
registers and every record is read once. CuPy compiles it (NVRTC). It is used where CuPy is
installed, for rows on a CUDA device without weights, and where the sums fit the registers; its sums
of a few thousand records are compared with those of the portable kernels first, and if they differ
it is not used again. Never for private sums: its error is not proved.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ..linalg import Array
from .mixture import Features
from .tensors import Tensor, Tensors

_KINDS = {"linear": 0, "square": 1, "norm": 2, "full": 3}
_THREADS = 128
# Numbers that a thread may add up. In float32 it may hold as many coefficients; in float64 a number
# takes two registers, and coefficients are in shared memory.
_MOST = 72
# Fewer rows are not worth compiling for; and so many are compared.
_WORTH, _COMPARED = 200_000, 8192
# How far sums may be apart, relative to the largest of their kind.
_APART = {True: 1e-4, False: 1e-10}

_allowed = True
_trusted: set[Shape] = set()
_distrusted: set[Shape] = set()


def allow(used: bool) -> None:
    """Whether compiled kernels may be used; for measurements."""
    global _allowed
    _allowed = used


@dataclass(frozen=True)
class Shape:
    """What a kernel is compiled for."""

    kind: str
    d: int
    k: int
    hard: bool
    single: bool

    @property
    def features(self) -> Features:
        """Those of a record."""
        return Features(self.kind, self.d)

    @property
    def lanes(self) -> int:
        """Threads that share a record; zero if the sums do not fit."""
        for lanes in (1, 2, 4, 8, 16, 32):
            if -(-self.k // lanes) * self.features.size <= _MOST:
                # Constants of components that nobody has: not worth it.
                return lanes if lanes <= max(1, 2 * self.k - 1) else 0
        return 0

    @property
    def each(self) -> int:
        """Components of a thread."""
        return -(-self.k // self.lanes)

    @property
    def resident(self) -> int:
        """Threads of a multiprocessor, by the registers that they need."""
        sums = self.each * self.features.size
        numbers = sums + 3 * self.d + (sums if self.lanes > 1 and self.single else 0)
        registers = min(255, numbers * (1 if self.single else 2) + 64)
        return max(1, 65_536 // (registers * _THREADS)) * _THREADS

    def source(self) -> str:
        """The kernel's source."""
        names = {
            "D": self.d,
            "K": self.k,
            "P": self.features.size,
            "LANES": self.lanes,
            "KS": self.each,
            "THREADS": _THREADS,
            "MOST": self.resident,
            "T": "float" if self.single else "double",
            "SINGLE": int(self.single),
            "KIND": _KINDS[self.kind],
            "HARD": int(self.hard),
        }
        head = "".join(f"#define {name} {value}\n" for name, value in names.items())
        return head + (Path(__file__).with_name("sums.cu")).read_text("utf-8")


@cache
def _module(shape: Shape, device: int) -> Any:
    """The compiled kernel; ``None`` if it cannot be had."""
    try:
        import cupy
    except ImportError:
        return None
    try:
        with cupy.cuda.Device(device):
            module = cupy.RawModule(code=shape.source(), options=("-std=c++17",))
            module.get_function("sums")
            return module
    except Exception as problem:  # whatever a compiler may raise
        warnings.warn(
            f"the compiled kernel cannot be used ({type(problem).__name__}); torch sums instead",
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def _launched(
    shape: Shape, module: Any, X: Tensor, coefficients: Array, origin: Array, torch: Any
) -> tuple[Array, float]:
    """Sums (K, p) and the likelihood (or inertia) of contiguous rows."""
    import cupy

    dtype = torch.float32 if shape.single else torch.float64
    lanes, each, size = shape.lanes, shape.each, shape.features.size
    table = np.zeros((lanes * each, size))
    table[:, 0] = -1e30  # components that nobody has
    table[: shape.k] = coefficients
    rough = origin.astype(np.float32) if shape.single else origin
    middle = np.stack([rough, origin - rough])
    put = [torch.tensor(v, dtype=dtype, device=X.device) for v in (table, middle)]
    index = X.device.index if X.device.index is not None else torch.cuda.current_device()
    processors = torch.cuda.get_device_properties(index).multi_processor_count
    blocks = processors * (shape.resident // _THREADS)
    threads = blocks * _THREADS
    out = torch.empty((each * size, threads), dtype=torch.float64, device=X.device)
    evidence = torch.empty(threads, dtype=torch.float64, device=X.device)
    stream = torch.cuda.current_stream(X.device)
    with cupy.cuda.Device(index), cupy.cuda.ExternalStream(stream.cuda_stream) as ours:
        for name, values in zip(("table", "middle"), put, strict=True):
            there = module.get_global(name)
            bytes_ = values.numel() * values.element_size()
            source = cupy.cuda.UnownedMemory(values.data_ptr(), bytes_, values)
            pointer = cupy.cuda.MemoryPointer(source, 0)
            there.copy_from_device_async(pointer, bytes_, ours)
        module.get_function("sums")(
            (blocks,),
            (_THREADS,),
            (
                np.uintp(X.data_ptr()),
                np.uintp(put[0].data_ptr()),
                np.uintp(out.data_ptr()),
                np.uintp(evidence.data_ptr()),
                np.int64(len(X)),
            ),
        )
    # A thread has the components of its lane.
    found = out.view(each * size, threads // lanes, lanes).sum(1).T.reshape(lanes * each, size)
    return found[: shape.k].cpu().numpy(), float(evidence.sum())


Portable = Callable[[Tensors], tuple[Array, float]]


def fused(
    records: Tensors,
    features: Features,
    coefficients: Array,
    origin: Array,
    hard: bool,
    portable: Portable,
) -> tuple[Array, float] | None:
    """Sums by the compiled kernel; ``None`` where it is not to be used.

    ``portable`` sums the same of other records, for the comparison.
    """
    X, work = records.X, records.work
    torch = work.torch
    wanted = X.device.type == "cuda" and records.weight is None and not records.streamed
    if not (_allowed and wanted and X.dtype == work.dtype and X.is_contiguous()):
        return None
    if len(X) < _WORTH or X.data_ptr() % 16:
        return None
    shape = Shape(features.kind, features.d, len(coefficients), hard, work.dtype == torch.float32)
    if shape in _distrusted or not shape.lanes:
        return None
    module = _module(shape, X.device.index or 0)
    if module is None:
        return None
    if shape not in _trusted:
        few = Tensors(X[:_COMPARED], None, work)
        ours = _launched(shape, module, few.X, coefficients, origin, torch)
        if not _agree(shape, ours, portable(few)):
            _distrusted.add(shape)
            warnings.warn(
                "the compiled kernel's sums differ from torch's; it is not used",
                RuntimeWarning,
                stacklevel=2,
            )
            return None
        _trusted.add(shape)
    return _launched(shape, module, X, coefficients, origin, torch)


def _agree(shape: Shape, ours: tuple[Array, float], theirs: tuple[Array, float]) -> bool:
    apart = _APART[shape.single]
    columns = np.abs(theirs[0]).max(axis=0) + 1e-300
    close = np.abs(ours[0] - theirs[0]).max(axis=0) <= apart * np.maximum(columns, _COMPARED / 100)
    return bool(close.all()) and abs(ours[1] - theirs[1]) <= apart * max(abs(theirs[1]), _COMPARED)
