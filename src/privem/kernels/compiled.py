"""The compiled pass of k-means, for those who have it: NumPy's sums, at several times its speed.

NumPy goes over a block once for each step: distances, the nearest, who belongs to whom, sums. The
pass in C (``c/nearest.c``) does all of it while a few records are in the first-level cache. It is
an optional part: wheels for common platforms hold it, an installation from source compiles it where
there is a C compiler, and everything works without it. A just-in-time compiler (numba) would add
200 MB and a wait at the first fit for one loop of 300 lines; Cython would need a wheel per version
of Python. A plain library, called by ctypes, needs neither: one wheel per platform, and calls
release the interpreter's lock.

``PRIVEM_COMPILED=0`` in the environment switches it off, ``1`` makes it an error that it is not
there.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..linalg import Array, Scratch
from .nearest import nearest

_LIBRARY = "nearest.dylib" if sys.platform == "darwin" else "nearest.so"
# Numbers of these kinds are exact as doubles, or NumPy would round them in the same way.
_CONVERTED = "biu"

_pointer, _int, _float = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double


class _Task(ctypes.Structure):
    _fields_ = (
        *((name, _int) for name in ("d", "k")),
        *((name, _pointer) for name in ("origin", "centres", "turned", "half")),
        *((name, _pointer) for name in ("inverse", "low", "high")),
        *((name, _int) for name in ("ball", "local")),
        *((name, _float) for name in ("step", "reach", "scale", "most", "area")),
    )


class _Rows(ctypes.Structure):
    _fields_ = (
        ("rows", _pointer),
        *((name, _int) for name in ("n", "row_stride", "column_stride", "single")),
        *((name, _pointer) for name in ("weight", "label", "count", "total", "square", "work")),
    )


def available() -> bool:
    """Whether the compiled pass is there and wanted."""
    wanted = os.environ.get("PRIVEM_COMPILED", "")
    if wanted == "0":
        return False
    library = _library()
    if library is None and wanted == "1":
        raise ImportError(
            "PRIVEM_COMPILED=1, but this installation of privem has no compiled part: install a "
            "wheel for your platform, or from source with a C compiler"
        )
    return library is not None


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL | None:
    path = Path(__file__).parent / "c" / _LIBRARY
    try:
        library = ctypes.CDLL(str(path))
        library.privem_nearest_version.restype = _int
        if library.privem_nearest_version() != _sources():
            return None
    except (OSError, AttributeError):
        return None
    library.privem_nearest_work.argtypes = [_int, _int]
    library.privem_nearest_work.restype = _int
    library.privem_nearest.argtypes = [_pointer, _pointer, _int]
    library.privem_nearest.restype = None
    return library


def _sources() -> int:
    """What a library made of the sources beside it calls itself: one of others is left alone.

    An editable install may keep a library while its sources change, and what is proved of private
    sums is proved of these.
    """
    made_of = hashlib.sha256()
    for name in ("lanes.h", "nearest.c"):
        made_of.update((Path(__file__).parent / "c" / name).read_bytes())
    return int.from_bytes(made_of.digest()[:7], "big")


class NearestPass:
    """Sums over the records nearest to each centre, by the compiled pass.

    Parameters
    ----------
    origin, centres : array of shape (d,), (K, d)
        Records are measured from the origin, and so are ``centres``.
    unit : tuple, optional
        Private sums: records are put on a lattice in unit coordinates first
        (:meth:`privem.blocks.region.Region.place`, bit for bit). ``(inverse, low, high, ball,
        step, spread, radius)``; with a spread of zero, what is summed is measured from the origin,
        else from each record's centre, in spreads, pulled into the ball of that radius.
    narrow : bool
        As on a processor without wide vectors, for tests.
    """

    def __init__(
        self,
        origin: Array,
        centres: Array,
        unit: tuple[Any, ...] | None = None,
        narrow: bool = False,
    ) -> None:
        self._given = (origin, centres, unit, narrow)
        self._origin, self._centres = (_plain(array) for array in (origin, centres))
        self.k, self.d = self._centres.shape
        self._half = np.full(-(-self.k // 4) * 4, np.inf)
        self._half[: self.k] = 0.5 * np.einsum("ij,ij->i", self._centres, self._centres)
        self._turned = np.zeros((self.d, len(self._half)))
        self._turned[:, : self.k] = self._centres.T
        task = self._task = _Task(d=self.d, k=self.k)
        task.origin, task.centres = _address(self._origin), _address(self._centres)
        task.turned, task.half = _address(self._turned), _address(self._half)
        if unit is not None:
            *sides, ball, step, spread, radius = unit
            self._sides = [_plain(side) for side in sides]
            task.inverse, task.low, task.high = (_address(side) for side in self._sides)
            task.ball, task.local, task.step = bool(ball), spread > 0, step
            if spread > 0:
                task.reach, task.scale = spread * radius, 1.0 / spread
                task.most, task.area = (spread * radius) ** 2, spread**2
        library = _library()
        assert library is not None
        self._call, self._numbers = library.privem_nearest, library.privem_nearest_work
        self._narrow = narrow
        # With centres whose squares overflow scores are not numbers, which NumPy treats as it may.
        self._ordinary = bool(np.isfinite(self._half[: self.k]).all())

    def __reduce__(self) -> tuple[Any, ...]:
        # What holds addresses cannot travel to another process; what it was made of can. There the
        # library may be missing, or switched off.
        return _made_anew, self._given

    def __call__(
        self,
        X: Array,
        weight: Array | None,
        scratch: Scratch,
        label: NDArray[np.int32] | None = None,
    ) -> tuple[Array, Array, float] | None:
        """Counts (K,), sums (K, d) and the sum of squares; ``None`` if NumPy has to do it.

        That is so where numbers are of an unusual type, or overflow. ``label`` (b,) is filled in.
        """
        # C reads as many numbers as it is told: for what does not fit NumPy finds words.
        beside = [len(X) if each is None else len(each) for each in (weight, label)]
        if X.shape != (len(X), self.d) or beside != [len(X)] * 2:
            return None
        if X.dtype.kind in _CONVERTED:
            X = X.astype(np.float64)
        elif not X.flags.aligned:  # as what comes from another process may be
            X = X.copy()
        single = X.dtype == np.float32
        if not (self._ordinary and (single or X.dtype == np.float64)):
            return None
        sums = np.zeros(self.k * (1 + self.d) + 1)
        at = _address(sums)
        work = scratch.take("compiled", (self._numbers(self.d, self.k),))
        if weight is not None:
            weight = _plain(weight)
        rows = _Rows(
            _address(X),
            len(X),
            *X.strides,
            single,
            None if weight is None else _address(weight),
            None if label is None else _address(label),
            at,
            at + 8 * self.k,
            at + 8 * (len(sums) - 1),
            _address(work),
        )
        self._call(ctypes.byref(self._task), ctypes.byref(rows), self._narrow)
        square = float(sums[-1])
        if not np.isfinite(square):
            return None
        return sums[: self.k], sums[self.k : -1].reshape(self.k, self.d), square


def _made_anew(*given: Any) -> NearestPass | None:
    return NearestPass(*given) if available() else None


def nearest_labels(
    rows: Array, origin: Array, centres: Array, scratch: Scratch
) -> NDArray[np.int32]:
    """The index of each record's nearest centre; ``centres`` are given about ``origin``."""
    if available():
        found = np.empty(len(rows), dtype=np.int32)
        if NearestPass(origin, centres)(rows, None, scratch, found):
            return found
    return nearest(rows, origin, centres, scratch)[1].astype(np.int32)


def _plain(array: Any) -> Array:
    return np.ascontiguousarray(array, dtype=np.float64)


def _address(array: NDArray[Any]) -> int:
    return int(array.ctypes.data)
