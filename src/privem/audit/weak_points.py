"""The worst neighbouring data sets for each estimator, for audits of whole fits.

A fit is a chain of releases, and a record that moves one of them fully may leave the next alone: it
must lie far from where each query looks, at the edge of what it keeps, and on the far side of what
the fit has found by then. One pair of data sets per estimator does nearly that, in one to three
columns and fifty records. How much of the claim it uses is measured with every audit
(:attr:`privem.audit.FitAudit.share`).
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri

from ..tree import Array
from .neighbours import _RELATIONS, Dataset, Pair

__all__ = ["weak_point"]

_SHARED = 49
_ORDER = np.arange(_SHARED)
# Quantiles of a Gaussian, in order and shuffled: samples without a seed.
_NORMAL = ndtri((_ORDER + 0.5) / _SHARED)
_SHUFFLED = _NORMAL[5 * _ORDER % _SHARED]
_SPREAD = np.linspace(-1.0, 1.0, _SHARED)


def _cluster() -> Array:
    """One cluster, left of the middle: the target at the other end has a component to itself."""
    return -0.5 + 0.2 * _NORMAL[:, None]


def _records(name: str) -> tuple[Array, list[float], list[float]]:
    """The records both data sets share, the target, and what replaces it."""
    signs = np.where(_ORDER % 2 == 0, 1.0, -1.0)
    match name:
        case "GaussianMixture":
            # Near the middle, so that both corners are far; in three columns, so that they are
            # further from a frame that noise keeps wide.
            columns = [_NORMAL[step * _ORDER % _SHARED] for step in (3, 10, 17)]
            return -0.2 + 0.1 * np.stack(columns, axis=1), [1.0] * 3, [-1.0] * 3
        case "SymmetricMixture":
            # Mirrored records are the same to it; none of a cluster's is like the middle.
            return 0.3 * signs[:, None] + 0.05 * _SHUFFLED[:, None], [1.0], [0.0]
        case "SymmetricRegressionMixture":
            line = 0.5 * _SPREAD + 0.05 * _SHUFFLED
            return np.stack([_SPREAD, line], axis=1), [1.0, 1.0], [1.0, 0.0]
        case "RegressionMixture":
            flat = np.stack([_cluster()[:, 0], 0.05 * _SHUFFLED], axis=1)
            return flat, [1.0, 1.0], [1.0, -1.0]
        case "MissingCovariateRegression":
            seen = np.where(_ORDER % 5 == 2, np.nan, _SPREAD)
            line = 0.5 * _SPREAD + 0.05 * _SHUFFLED
            return np.stack([seen, line], axis=1), [1.0, -1.0], [1.0, 1.0]
        case "CategoricalMixture":
            # Two columns that always agree: classes nobody can doubt.
            return (signs[:, None] > 0) * np.ones(2), [1.0, 1.0], [0.0, 0.0]
    return _cluster(), [1.0], [-1.0]


def weak_point(name: str, neighbours: str = "add-remove", rows: int = 1) -> Pair:
    """The neighbouring data sets on which fits of an estimator move most.

    Parameters
    ----------
    name : str
        Of an estimator in ``audit.battery.ESTIMATORS``. Where it has a target, that is the last
        column.
    neighbours : {"add-remove", "replace-one"}
        Whether the target record is absent from the second data set, or another.
    rows : int
        If above one, the target is a person with this many identical rows.

    Returns
    -------
    Pair

    Examples
    --------
    >>> pair = weak_point("KMeans", rows=10)
    >>> pair.data.X.shape, pair.neighbour.X.shape, len(set(pair.data.groups))
    ((59, 1), (49, 1), 50)
    """
    shared, target, other = _records(name)
    if neighbours not in _RELATIONS:
        raise ValueError(f"neighbours must be one of {_RELATIONS}, got {neighbours!r}")
    replaced = np.vstack([shared, [other] * rows]) if neighbours == "replace-one" else shared
    both = (np.vstack([shared, [target] * rows]), replaced)
    if rows == 1:
        return Pair("weak point", Dataset(both[0]), Dataset(both[1]))
    who = [np.minimum(np.arange(len(X)), _SHARED) for X in both]
    return Pair("weak point", Dataset(both[0], who[0]), Dataset(both[1], who[1]))
