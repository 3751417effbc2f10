"""Sums by CUDA C++ that is compiled when it is first needed: ``sums.cu``.

The kernel is made for one number of columns and components, so all that is added up stays in
registers and every record is read once. CuPy compiles it (NVRTC). It is used where CuPy is
installed, for rows on a CUDA device without weights, and where the sums fit the registers; its sums
of a few thousand records are compared with those of the portable kernels first, and if they differ
it is not used again; private sums are compared on made-up records. For private sums of full, diag
and spherical mixtures in a box the kernel keeps to the error charged (``docs/proofs/device.md``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np

from ..linalg import Array
from .launches import collected, held_constants, launch, processors_of, source_of
from .mixture import Features
from .tensors import Tensor, Tensors

_KINDS = {"linear": 0, "square": 1, "norm": 2, "full": 3}
_THREADS = 128
# Numbers that a thread may add up. In float32 it may hold as many coefficients; in float64 a number
# takes two registers, and coefficients are in shared memory.
_MOST = 72
# The same, this record and the next, of a thread that has all centres for itself, in float32.
_MOST_ALONE = 132
# Bytes that a thread may add up in shared memory, so that a processor has 256.
_MOST_SHELVED = 880
# Fewer rows are not worth compiling for; and so many are compared.
_WORTH, COMPARED = 200_000, 8192
# How far sums may be apart, relative to the largest of their kind.
_APART = {True: 1e-4, False: 1e-10}

_allowed = True
_trusted: set[Kernel] = set()
_distrusted: set[Kernel] = set()


def allow(used: bool) -> None:
    """Whether compiled kernels may be used; for measurements."""
    global _allowed
    _allowed = used


class Kernel(Protocol):
    """What is asked of what a kernel is compiled for."""

    @property
    def single(self) -> bool: ...  # noqa: D102
    @property
    def hard(self) -> bool: ...  # noqa: D102
    @property
    def short(self) -> bool: ...  # noqa: D102
    @property
    def bounded(self) -> bool: ...  # noqa: D102
    @property
    def entry(self) -> str: ...  # noqa: D102
    @property
    def lanes(self) -> int: ...  # noqa: D102
    def source(self) -> str: ...  # noqa: D102
    def __hash__(self) -> int: ...


@dataclass(frozen=True)
class Shape:
    """What a kernel is compiled for."""

    entry = "sums"

    kind: str
    d: int
    k: int
    hard: bool
    single: bool
    """Whether sums are formed in float32; only of rows of that type."""
    short: bool
    """Whether the rows are float32."""
    bounded: bool = False

    @property
    def features(self) -> Features:
        """Those of a record."""
        return Features(self.kind, self.d)

    @property
    def sums(self) -> int:
        """Numbers that are added up for each component."""
        return self.features.size + self.bounded

    @property
    def _alone(self) -> bool:
        """Whether a thread has room for all centres of a record: then there are no shuffles."""
        return self.single and self.hard and self.k * self.sums + 2 * self.d <= _MOST_ALONE

    @property
    def shelved(self) -> int:
        """Bytes of sums of a block in shared memory: of the nearest centres, in float64."""
        each = 8 * self.k * self.sums
        few = self.k * self.sums <= _MOST
        return 0 if self.single or not self.hard or few or each > _MOST_SHELVED else each * _THREADS

    @property
    def lanes(self) -> int:
        """Threads that share a record; zero if the sums do not fit."""
        if self.shelved:
            return 1
        for lanes in (1, 2, 4, 8, 16, 32):
            if -(-self.k // lanes) * self.sums <= _MOST or (lanes == 1 and self._alone):
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
        sums = self.each * self.sums
        if self.shelved:
            return 2 * _THREADS
        if self.single and self.lanes == 1:
            scores = self.k if self.k <= 12 else 3 * self.k
            registers = sums + 3 * self.d + scores + 16
            return max(1, min(4, 65_536 // (registers * _THREADS))) * _THREADS
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
            "IN": "float" if self.short else "double",
            "SHORT": int(self.short),
            "T": "float" if self.single else "double",
            "SINGLE": int(self.single),
            "KIND": _KINDS[self.kind],
            "HARD": int(self.hard),
            "SHELVED": int(self.shelved > 0),
            "BOUNDED": int(self.bounded),
        }
        return source_of(names, "sums.cu")


@cache
def _module(shape: Kernel, device: int) -> Any:
    """The compiled kernel; ``None`` if it cannot be had."""
    try:
        import cupy
    except ImportError:
        return None
    try:
        with cupy.cuda.Device(device):
            module = cupy.RawModule(code=shape.source(), options=("-std=c++17",))
            module.get_function(shape.entry)
            return module
    except Exception as problem:  # whatever a compiler may raise
        _say(shape, f"it cannot be compiled ({type(problem).__name__}); torch sums instead")
        return None


def _say(shape: Kernel, what: str) -> None:
    """Warn, if sums are exact: kernels are for many rows, so it would tell that there are many."""
    if not shape.bounded:
        warnings.warn(f"a compiled kernel is not used: {what}", RuntimeWarning, stacklevel=3)


def _launched(
    shape: Shape,
    module: Any,
    X: Tensor,
    coefficients: Array,
    constants: Mapping[str, Any],
    torch: Any,
) -> tuple[Tensor, Tensor]:
    """Sums (parts, K, p) over groups of threads, and the likelihood (or inertia)."""
    dtype = torch.float32 if shape.single else torch.float64
    lanes, each, size = shape.lanes, shape.each, shape.features.size
    table = np.zeros((lanes * each, size))
    table[:, 0] = -1e30  # components that nobody has
    table[: shape.k] = coefficients
    given = {"table": table, **constants}
    put = {name: torch.tensor(v, dtype=dtype, device=X.device) for name, v in given.items()}
    blocks = processors_of(X, torch) * (shape.resident // _THREADS)
    threads, parts = blocks * _THREADS, 1 + shape.bounded
    made = (parts, each * shape.sums, threads // lanes, lanes)
    out = torch.empty(made, dtype=torch.float64, device=X.device)
    evidence = torch.empty(threads, dtype=torch.float64, device=X.device)
    arguments = (X, put["table"], out, evidence, len(X))
    with held_constants(module, put, X, torch):
        launch(module, "sums", (blocks, 1), _THREADS, X, arguments, torch, shape.shelved)
    return out, evidence


def _of_lanes(shape: Shape, sums: Array) -> Array:
    """Sums (K, p), of which a thread has the components of its lane: (components p, lanes)."""
    return sums.T.reshape(shape.lanes * shape.each, shape.sums)[: shape.k]


def _exact(
    shape: Shape, module: Any, X: Tensor, coefficients: Array, origin: Array, torch: Any
) -> tuple[Array, float]:
    rough = origin.astype(np.float32) if shape.single else origin
    constants = {"middle": np.stack([rough, origin - rough])}
    out, evidence = _launched(shape, module, X, coefficients, constants, torch)
    return _of_lanes(shape, out[0].sum(1).cpu().numpy()), float(evidence.sum())


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
    shape = Shape(
        features.kind,
        features.d,
        len(coefficients),
        hard,
        records.work.dtype == records.work.torch.float32,
        records.X.element_size() == 4,
    )
    module, X, torch = usable(records, shape), records.X, records.work.torch
    if module is None:
        return None

    def ours(some: Tensors) -> tuple[Array, float]:
        return _exact(shape, module, some.X, coefficients, origin, torch)

    few = Tensors(X[:COMPARED], None, records.work)
    agree = trusted(shape, lambda: ours(few), lambda: portable(few))
    return ours(records) if agree else None


@dataclass(frozen=True)
class Box:
    """Where records are pulled to: as :class:`privem.blocks.region.Region`, without a ball."""

    centre: Array
    scale: Array
    limit: Array


def bounded(
    records: Tensors,
    features: Features,
    coefficients: Array,
    constants: Array,
    box: Box,
    radius: float,
    portable: Callable[[Tensors], tuple[Array, Array]],
) -> tuple[Array, Array] | None:
    """Sums (K,) of g and (K, p) of g s phi, as :func:`privem.kernels.mixture.by_products`.

    ``None`` where the compiled kernel is not to be used.
    """
    k = len(coefficients)
    short = records.X.element_size() == 4
    shape = Shape(features.kind, features.d, k, False, False, short, True)
    # One sum of 512 records is granted where tiles have as many.
    if not np.isfinite(radius) or features.tile_rows(k) < 512:
        return None
    module, torch = usable(records, shape), records.work.torch
    if module is None:
        return None
    features, k, size = shape.features, shape.k, shape.features.size
    half = 0.5 * radius**2
    far = np.zeros(1 + shape.lanes * shape.each)
    far[0], far[1 : 1 + k] = half, constants
    given = {"middle": np.stack([box.centre, 1.0 / box.scale]), "limit": box.limit, "far": far}

    def ours(some: Tensors) -> tuple[Array, float]:
        out, _ = _launched(shape, module, some.X, coefficients, given, torch)
        return _of_lanes(shape, collected(out[0], out[1], torch)), 0.0

    def theirs(some: Tensors) -> tuple[Array, float]:
        count, sums = portable(some)
        return np.concatenate([sums / half, count[:, None]], axis=1), 0.0

    # Made-up records: what is found here must not depend on the rows.
    draw = torch.Generator(device=records.X.device).manual_seed(0)
    form = {"dtype": records.X.dtype, "device": records.X.device, "generator": draw}
    centre, reach = (records.work.put(v, records.X.dtype) for v in (box.centre, box.scale))
    made = torch.randn((COMPARED, features.d), **form) * (0.3 * reach) + centre
    few = Tensors(made, None, records.work)
    if not trusted(shape, lambda: ours(few), lambda: theirs(few)):
        return None
    found, _ = ours(records)
    return found[:, size], found[:, :size] * half


def usable(records: Tensors, shape: Kernel) -> Any:
    """The compiled kernel, if it is for such rows; else ``None``."""
    X, torch = records.X, records.work.torch
    wanted = X.device.type == "cuda" and records.weight is None and not records.streamed
    if not (_allowed and wanted and X.is_contiguous()):
        return None
    if X.dtype not in (torch.float32, torch.float64) or (X.dtype != records.work.dtype) != (
        shape.bounded and shape.short
    ):
        return None
    if len(X) < _WORTH or X.data_ptr() % 16 or shape in _distrusted or not shape.lanes:
        return None
    return _module(shape, X.device.index or 0)


Found = Callable[[], tuple[Array, float]]


def trusted(shape: Kernel, ours: Found, theirs: Found) -> bool:
    """Whether the kernel's sums of a few records are torch's; found out once."""
    if shape not in _trusted:
        if not _agree(shape, ours(), theirs()):
            _distrusted.add(shape)
            _say(shape, "its sums differ from torch's")
            return False
        _trusted.add(shape)
    return True


def _agree(shape: Kernel, ours: tuple[Array, float], theirs: tuple[Array, float]) -> bool:
    apart = _APART[shape.single]
    # Records half-way between two centres may go to either.
    each = 2e-3 if shape.hard else apart
    columns = np.abs(theirs[0]).max(axis=0) + 1e-300
    close = np.abs(ours[0] - theirs[0]).max(axis=0) <= each * np.maximum(columns, COMPARED / 100)
    return bool(close.all()) and abs(ours[1] - theirs[1]) <= apart * max(abs(theirs[1]), COMPARED)
