"""What a fitted model says about records: their densities, and shares of hidden components.

Evaluating a model on records is not private, however the model was fitted.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from ..blocks.region import Background
from ..core import Block, Scratch
from ..kernels.mixture import log_normaliser
from ..linalg import Array, first_largest
from .base import Estimator

OfBlock = Callable[[Block, Scratch], Array]


def shares(log_joint: OfBlock) -> OfBlock:
    """Probabilities of the components (b, K), from what gives their log joint densities (K, b)."""

    def share(block: Block, scratch: Scratch) -> Array:
        joint = log_joint(block, scratch)
        log_normaliser(joint, scratch)
        return joint.T.copy()

    return share


def log_sums(log_joint: OfBlock) -> OfBlock:
    """Log-densities (b,), from what gives the log joint densities (K, b)."""
    return lambda block, scratch: log_normaliser(log_joint(block, scratch), scratch).copy()


class Density(Estimator):
    """Abstract base of estimators that are a density of records."""

    @abstractmethod
    def _log_density(self) -> OfBlock:
        """What gives the log-density of each record of a block, without a background."""

    def _background(self) -> Background | None:
        """The background of the fitted model, if it has one."""
        return None

    def _whole_density(self) -> OfBlock:
        """What gives the log-density of each record of a block."""
        density, background = self._log_density(), self._background()
        if background is None:
            return density

        def whole(block: Block, scratch: Scratch) -> Array:
            inside = replace(block, X=background.clamped(block.X, scratch))
            return background.beneath(density(inside, scratch))

        return whole

    def score_samples(self, X: Any) -> Array:
        """Log-density of each record under the model.

        A model with a background (``background_weight_`` above zero) clamps records to ``bounds_``
        first: outside, a uniform density is zero.
        """
        check_is_fitted(self)
        return np.asarray(self._all(X, self._whole_density()))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of the records, in memory that does not grow with them.

        Records are clamped as by :meth:`score_samples`.
        """
        check_is_fitted(self)
        total, rows = 0.0, 0
        for densities in self._each(X, self._whole_density()):
            total, rows = total + float(densities.sum()), rows + len(densities)
        return total / rows


class Components(Density):
    """Abstract base of densities that are mixtures."""

    @abstractmethod
    def _log_joint(self) -> OfBlock:
        """What gives the log joint density of each component and record of a block, (K, b).

        A term that all components share may be left out, if ``_log_density`` adds it.
        """

    def _log_density(self) -> OfBlock:
        return log_sums(self._log_joint())

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The most probable component of each record."""
        check_is_fitted(self)
        log_joint = self._log_joint()
        labels: NDArray[np.int64] = self._all(X, lambda b, s: first_largest(log_joint(b, s), 0))
        return labels

    def predict_proba(self, X: Any) -> Array:
        """Probability of each component given each record, ``(n_samples, n_components)``."""
        check_is_fitted(self)
        return np.asarray(self._all(X, shares(self._log_joint())))


class TargetDensity(Estimator):
    """Abstract base of estimators that are a density of a target given the other columns."""

    @abstractmethod
    def _log_density(self) -> OfBlock:
        """What gives the log-density of each target, the last column of a block."""

    def log_likelihood(self, X: Any, y: Any) -> Array:
        """Log-density of each target given its record."""
        check_is_fitted(self)
        return np.asarray(self._all(X, self._log_density(), y=y, target=True))

    def score(self, X: Any, y: Any) -> float:
        """Mean log-density of the targets given the records."""
        return float(np.mean(self.log_likelihood(X, y)))
