"""Fitting on a federation: what an estimator tells the parties, and what it cannot ask of them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ..federation import Federation

if TYPE_CHECKING:
    from .base import Estimator

__all__ = ["open_federation"]

# Whose questions parties know how to check (privem.federation.wire).
_FEDERATED = ("GaussianMixture", "KMeans", "FactorAnalysis")
# Parameters that say nothing about what is fitted.
_ASIDE = ("verbose", "verbose_interval", "n_jobs", "copy", "copy_x")


def open_federation(estimator: Estimator, X: Federation, weight: Any, groups: Any) -> Federation:
    """Open a run for this estimator; parties hear its parameters."""
    if weight is not None or groups is not None:
        raise TypeError(
            "sample_weight and groups belong to rows, which are with the parties: give weights to "
            "each Party's rows"
        )
    if type(estimator).__name__ not in _FEDERATED:
        raise NotImplementedError(
            f"{type(estimator).__name__} does not fit on a federation in this version; "
            f"{', '.join(_FEDERATED)} do"
        )
    _refuse_row_starts(estimator)
    private = getattr(estimator, "epsilon", None) is not None
    failure = estimator._terms(None).failure if private else 0.0
    X.begin(_terms(estimator), failure, private)
    return X


def _refuse_row_starts(estimator: Estimator) -> None:
    start = getattr(estimator, "init_params", "kmeans")
    if start != "kmeans":
        raise ValueError(
            f"init_params={start!r} looks at single rows, or goes by their numbers, and a "
            "federation gives sums only; use 'kmeans', or weights_init, means_init and "
            "precisions_init"
        )
    start = getattr(estimator, "init", "split")
    if callable(start) or (isinstance(start, str) and start != "split"):
        raise ValueError(
            f"init={start!r} looks at single rows, and a federation gives sums only; use 'split', "
            "or an array of centres"
        )


def _terms(estimator: Estimator) -> dict[str, str]:
    """Name and parameters in words, arrays by their hash: what parties see and know again."""
    found = {"estimator": type(estimator).__name__}
    for name, value in sorted(estimator.get_params(deep=False).items()):
        if name in _ASIDE:
            continue
        if isinstance(value, np.ndarray | list | tuple) and np.size(value) > 8:
            array = np.asarray(value)
            found[name] = "sha256:" + hashlib.sha256(array.astype("<f8").tobytes()).hexdigest()
        else:
            found[name] = repr(value)[:500]
    return found
