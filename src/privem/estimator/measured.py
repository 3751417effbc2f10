"""Released numbers with their noise: they print as such, and count as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from ..linalg import Array
from ..meter import Statement
from ..report.numbers import rounded

# A difference stands out of the noise if it is so many deviations large.
CLEAR = 3.0


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
    return f"{' ± '.join(rounded(value, deviation, 3))} (noise)"


@dataclass(frozen=True, eq=False, repr=False)
class PrivateScore(Measured):
    """A mean log-density that may be published, and the statement that says so.

    It passes for a number where one is expected: ``float(score)``, ``f"{score:.2f}"``,
    ``score - other``. Printed, it is the score with its noise, and the statement.

    Parameters
    ----------
    value : float
        Mean of the records' log-densities, each within ``limits``, and noise.
    privacy : Statement
    deviation : float
        Standard deviation of what the noise did to it, that on the count included.
    limits : (float, float)
        What each record's log-density was clipped to.
    """

    value: float
    privacy: Statement
    deviation: float
    limits: tuple[float, float]

    def _lines(self) -> list[str]:
        """The score, its noise and its limits."""
        low, high = self.limits
        said = say_measured(self.value, self.deviation)
        return [f"{said}, each log-density within [{low:g}, {high:g}]"]


@dataclass(frozen=True, eq=False, repr=False)
class PrivateScores(Measured):
    """Mean log-densities of the same records under several models, and their statement.

    It passes for an array of numbers; ``scores[i]`` is one of them, also by the name of its model.
    Printed, it is a table of the scores with their noise, what stands out of it, and the statement.

    Parameters
    ----------
    value : ndarray of shape (n_models,)
        Mean of the records' log-densities, each within ``limits``, and noise.
    privacy : Statement
    deviation : ndarray of shape (n_models,)
        Standard deviation of what the noise did to each, that on the count included.
    limits : (float, float)
        What each record's log-density was clipped to, under every model.
    names : tuple of str
        Of the models.
    difference_deviation : float
        Standard deviation of what the noise did to the difference of two scores. It is smaller than
        that of the scores, which share most of their noise.
    """

    value: Array
    privacy: Statement
    deviation: Array
    limits: tuple[float, float]
    names: tuple[str, ...]
    difference_deviation: float

    def __len__(self) -> int:
        """How many models."""
        return len(self.names)

    def __getitem__(self, model: int | str) -> float:
        """The score of a model, by its number or its name."""
        return float(self.value[self.names.index(model) if isinstance(model, str) else model])

    @property
    def ranking(self) -> list[int]:
        """Numbers of the models, the best score first."""
        return [int(i) for i in np.argsort(-self.value, kind="stable")]

    @property
    def stands_out(self) -> NDArray[np.bool_]:
        """Whether the scores of two models differ by more than three deviations of the noise."""
        away = np.abs(self.value[:, None] - self.value)
        return np.asarray(away > CLEAR * self.difference_deviation)

    def _lines(self) -> list[str]:
        """A line per model; the noise of differences; what cannot be told from the best."""
        width, (low, high) = max(map(len, self.names)), self.limits
        each = zip(self.names, self.value, self.deviation, strict=True)
        lines = [f"{name:<{width}}  {say_measured(value, noise)}" for name, value, noise in each]
        best, *others = self.ranking
        if others:
            close = [self.names[i] for i in others if not self.stands_out[best, i]]
            told = f"not told apart from it: {', '.join(close)}" if close else "clearly"
            noise = f"a difference has noise of deviation {self.difference_deviation:.3g}"
            lines.append(f"best: {self.names[best]}, {told}; {noise}")
        return [*lines, f"each log-density within [{low:g}, {high:g}]"]
