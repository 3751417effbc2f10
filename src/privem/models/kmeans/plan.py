"""k-means: a start, Lloyd's iterations, the best of several runs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.moments import MANY_COLUMNS, Frame, FramePlan
from ...core import Release, Stage
from ...em import ExactEM, Fit
from ...noise.exact import Exact
from ...tree import Array
from .model import Clusters, KMeansModel
from .start import SplitStart


def lloyd(frame: Frame, start: Clusters, max_iter: int, tol: float) -> ExactEM[Clusters]:
    """Lloyd's algorithm, stopped as scikit-learn does: centres move less than tol x variance."""

    def stop(change: float, old: Clusters, new: Clusters) -> bool:
        return _shift(old, new) <= tol * frame.scale

    return ExactEM(KMeansModel(frame), start, max_iter, stop, "k-means")


def _shift(old: Clusters, new: Clusters) -> float:
    return float(np.sum((new.centres - old.centres) ** 2))


@dataclass(frozen=True)
class KMeansPlan:
    """Frame, then for each start Lloyd's algorithm; keeps the smallest inertia.

    Parameters
    ----------
    names : sequence of str
        Column names.
    n_clusters, max_iter, tol : as the estimator's
    starts : sequence of array or None or Generator
        Given centres, ``None`` for the splitting start, a generator for a random one.
    """

    names: Sequence[str]
    n_clusters: int
    max_iter: int
    tol: float
    starts: Sequence[Array | np.random.Generator | None]

    def stages(self) -> Generator[Stage, Release[Any], tuple[Frame, Fit[Clusters]]]:
        """Generate the stages."""
        wide = len(self.names) > MANY_COLUMNS
        frame = yield from FramePlan(self.names, self.n_clusters, np.inf if wide else 0.0).stages()
        best: Fit[Clusters] | None = None
        for start in self.starts:
            if isinstance(start, np.ndarray):
                clusters = Clusters(start)
            else:
                clusters = yield from SplitStart(frame, self.n_clusters, start).stages()
            fit = yield from lloyd(frame, clusters, self.max_iter, self.tol).stages()
            # The loop's objective is that of the centres before the last step: ask once more.
            model = KMeansModel(frame)
            why = self._why(fit, frame)
            release = yield Stage(model.query(fit.state), Exact(), "inertia", progress=why)
            fit = Fit(fit.state, model.objective(fit.state, release), fit.n_iter, fit.converged)
            if best is None or fit.objective > best.objective:
                best = fit
        assert best is not None
        return frame, best

    def _why(self, fit: Fit[Clusters], frame: Frame) -> str:
        """Why a run ended, for whoever watches."""
        if not fit.converged:
            return f"Not converged after {fit.n_iter} iterations."
        shift = _shift(fit.previous or fit.state, fit.state)
        within = f"center shift {shift:.6g} within tolerance {self.tol * frame.scale:.6g}"
        return f"Converged at iteration {fit.n_iter}: {within if shift else 'strict convergence'}."
