"""A released number with its noise: prints as one, and counts as one."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..statement import Statement
from ..tree import Array


class Measured(NDArrayOperatorsMixin):
    """Abstract base of what was released with noise; arithmetic gives plain numbers and arrays.

    Printed, it says value, noise and what else is known, and then the statement.
    """

    value: Any
    privacy: Statement
    deviation: Any

    __array_priority__: ClassVar[float] = 1.0

    def _lines(self) -> list[str]:
        """Value and noise in words, a line per column."""
        raise NotImplementedError

    def __float__(self) -> float:
        """The number, where there is one."""
        if np.size(self.value) != 1:
            raise TypeError(f"there are {np.size(self.value)} numbers; take one of them")
        return float(np.ravel(self.value)[0])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The numbers as an array."""
        return np.array(self.value, dtype=dtype or np.float64)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Any arithmetic of NumPy's, on the numbers alone."""
        plain = [np.asarray(part) if isinstance(part, Measured) else part for part in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __round__(self, digits: int | None = None) -> Any:
        """Rounded, as numbers and arrays are."""
        if np.ndim(self.value):
            return np.round(np.asarray(self), digits or 0)
        return round(float(self), digits)

    def __format__(self, how: str) -> str:
        """Formatted as a number; without a format, as it prints."""
        return format(float(self), how) if how else str(self)

    def __str__(self) -> str:
        """The numbers with their noise, and the statement."""
        return "\n".join([*self._lines(), str(self.privacy)])

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'; '.join(self._lines())}>"


def say_measured(value: float, deviation: float) -> str:
    """A number with its noise, to three digits of the noise.

    Examples
    --------
    >>> say_measured(48353.91, 174.3), say_measured(0.123456, 0.00456)
    ('48,354 ± 174 (noise)', '0.12346 ± 0.00456 (noise)')
    """
    if not (math.isfinite(deviation) and 1e-12 < deviation < 1e15 and abs(value) < 1e15):
        return f"{value:g} ± {deviation:.3g} (noise)"
    digits = max(0, 2 - math.floor(math.log10(deviation)))
    return f"{value:,.{digits}f} ± {deviation:,.{digits}f} (noise)"
