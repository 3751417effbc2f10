"""Components as shapes over two columns, and which columns to show.

Everything here is arithmetic on a fitted model and on records drawn from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

Array = NDArray[np.float64]
Pair = tuple[int, int]

# Okabe and Ito's colours, which people of all kinds of colour vision tell apart; black and the
# faint yellow are left out.
COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
INK, FAINT = "#22262b", "#6b7280"

# Of many columns the first are searched for those to show; of many components the heaviest shown.
_SEARCHED, _SHOWN = 100, 12
# A background, where there is one, spreads a few records over the whole region: at either side this
# share of them is not shown, and so much air is left.
_MOST_RECORDS = (0.01, 0.1)
_ANGLES = np.linspace(0.0, 2 * np.pi, 65)


@dataclass(frozen=True)
class Shapes:
    """Where a model's components lie, for pictures.

    Parameters
    ----------
    centres : ndarray of shape (K, d)
    weights : ndarray of shape (K,), optional
    covariance : callable, optional
        Gives the covariance of component k in some columns.

    Examples
    --------
    >>> shapes = Shapes(np.zeros((1, 3)), np.ones(1), lambda k, at: np.eye(len(at)))
    >>> shapes.ring(0, (0, 2), 2.0)[0].tolist()
    [2.0, 0.0]
    """

    centres: Array
    weights: Array | None = None
    covariance: Callable[[int, Sequence[int]], Array] | None = None

    @classmethod
    def of_mixture(
        cls, weights: Array, means: Array, covariances: Array, tied: bool = False
    ) -> Shapes:
        """Of a mixture whose covariances are matrices, variances of columns, or one for all.

        Examples
        --------
        >>> Shapes.of_mixture(np.ones(1), np.zeros((1, 3)), np.full(1, 4.0)).covariance(0, (0, 2))
        array([[4., 0.],
               [0., 4.]])
        """

        def covariance(k: int, at: Sequence[int]) -> Array:
            found = np.asarray(covariances if tied else covariances[k])
            if found.ndim == 2:
                return np.asarray(found[np.ix_(at, at)])
            return np.diag(np.broadcast_to(found, means.shape[1])[list(at)])

        return cls(means, weights, covariance)

    @property
    def shown(self) -> list[int]:
        """The components to draw: all, or the heaviest; one, where all are the same."""
        if len(self.centres) > 1 and not np.ptp(self.centres, axis=0).any():
            return [0]
        if self.weights is None:
            return list(range(min(len(self.centres), _SHOWN)))
        order = np.argsort(-np.asarray(self.weights), kind="stable")[:_SHOWN]
        return sorted(int(k) for k in order)

    def ring(self, k: int, at: Pair, deviations: float) -> Array:
        """Points of a component's ellipse in two columns, (n, 2), so many deviations wide."""
        assert self.covariance is not None
        values, vectors = np.linalg.eigh(np.asarray(self.covariance(k, at)))
        axes = vectors * np.sqrt(np.maximum(values, 0.0))
        circle = np.stack([np.cos(_ANGLES), np.sin(_ANGLES)])
        return np.asarray(self.centres[k, list(at)] + deviations * (axes @ circle).T)

    def spread(self) -> Array:
        """How far centres are apart in each of the first columns, in the column's deviations."""
        columns = min(self.centres.shape[1], _SEARCHED)
        centres = self.centres[:, :columns]
        weights = np.ones(len(centres)) if self.weights is None else np.asarray(self.weights)
        weights = weights / max(float(weights.sum()), 1e-300)
        between = weights @ np.square(centres - weights @ centres)
        if self.covariance is None:
            return np.asarray(between)
        within = np.stack(
            [np.diag(self.covariance(k, range(columns))) for k in range(len(centres))]
        )
        return np.asarray(between / np.maximum(between + weights @ within, 1e-300))


def numbers_of(drawn: pl.DataFrame | None) -> dict[str, Array]:
    """The columns of numbers of a frame, by name; gaps are NaN."""
    if drawn is None:
        return {}
    return {
        column.name: column.cast(pl.Float64).to_numpy()
        for column in drawn
        if column.dtype.is_numeric() and not column.dtype.is_decimal()
    }


def pairs_to_show(
    names: Sequence[str], shapes: Shapes | None, drawn: Mapping[str, Array], columns: int = 4
) -> list[Pair]:
    """Pairs of the columns that show most.

    Where there are several centres, the columns in which these are furthest apart; otherwise the
    pairs that depend most in records drawn from the model.
    """
    if shapes is not None and len(shapes.centres) > 1:
        best = np.argsort(-shapes.spread(), kind="stable")[:columns]
        return list(combinations(sorted(int(j) for j in best), 2))
    known = [j for j, name in enumerate(names) if name in drawn][:_SEARCHED]
    ranks = {j: _ranks(drawn[names[j]]) for j in known}
    pairs = list(combinations(known, 2))
    order = sorted(pairs, key=lambda pair: -abs(float(np.mean(ranks[pair[0]] * ranks[pair[1]]))))
    return order[: columns * (columns - 1) // 2]


def _ranks(values: Array) -> Array:
    """Ranks with mean zero and variance one; gaps are in the middle."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable").astype(np.float64)
    ranks[~np.isfinite(values)] = np.mean(ranks)
    return np.asarray((ranks - ranks.mean()) / max(float(ranks.std()), 1e-300))


def window(values: Array, outside: float = 0.0005, air: float = 0.04) -> tuple[float, float]:
    """Limits that show all but a few outliers on either side, with some air."""
    found = values[np.isfinite(values)]
    if not len(found):
        return -1.0, 1.0
    low, high = (float(v) for v in np.quantile(found, [outside, 1 - outside]))
    width = air * (high - low) or 1.0
    return low - width, high + width


def window_of(
    model: Any, j: int, shapes: Shapes | None, drawn: Mapping[str, Array]
) -> tuple[float, float]:
    """Limits of a column that show the centres, and most records that were drawn."""
    name = model._names("x")[j]
    ends = list(window(drawn[name], *_MOST_RECORDS)) if name in drawn else []
    if shapes is not None:
        centres = shapes.centres[shapes.shown, j]
        ends += [centres.min(), centres.max()] if ends else window(centres, 0.0, 0.2)
    return float(min(ends)), float(max(ends))
