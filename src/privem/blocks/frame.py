"""Where the data lie: the first two passes of every exact fit."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import Release, Stage
from ..noise.exact import Exact
from .moments import Frame, Moments, MomentsQuery, Sums, SumsQuery

__all__ = ["FramePlan"]


@dataclass(frozen=True)
class FramePlan:
    """Two exact passes: sums, then second moments (or their diagonal) about the mean.

    Parameters
    ----------
    names : sequence of str
        One per column, for error messages.
    min_rows : int
        Fewer rows than this are refused.
    whole_from : float
        With fewer rows than this, squares of columns only: d numbers instead of d(d+1)/2.
    """

    names: Sequence[str]
    min_rows: int = 1
    whole_from: float = 0.0

    def stages(self) -> Generator[Stage, Release[Any], Frame]:
        """Generate the stages."""
        sums: Sums = (yield Stage(SumsQuery(), Exact(), "sums")).statistics
        rows, count = int(sums.rows), float(sums.count)
        if rows < self.min_rows:
            raise ValueError(
                f"n_samples={rows} row(s) of data, but at least {self.min_rows} are needed: "
                "n_samples should be >= n_clusters or n_components"
            )
        if not count > 0:
            raise ValueError("the sample weights sum to zero: no record counts")
        self._refuse_overflow(sums.total)
        origin = np.asarray(sums.total / count)
        # Whether a constant 1e300 survives its square must not hang on how its mean rounds.
        with np.errstate(over="ignore"):
            self._refuse_overflow(origin**2)
        query = MomentsQuery(origin, diagonal=rows < self.whole_from)
        release = yield Stage(query, Exact(), "moments")
        moments: Moments = release.statistics
        frame = Frame(rows, count, origin, moments.total, moments.second)
        self._refuse_overflow(frame.diagonal)
        return frame

    def _refuse_overflow(self, per_column: np.ndarray) -> None:
        if np.isfinite(per_column).all():
            return
        for name, value in zip(self.names, per_column, strict=True):
            if not np.isfinite(value):
                raise ValueError(
                    f"column {name!r} holds values so large that their sum or squares overflow "
                    "double precision; rescale it (for example divide by its largest value)"
                )
