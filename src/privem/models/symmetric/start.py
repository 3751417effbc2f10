"""Where EM of the symmetric models begins: along the direction in which records lie.

b is the top eigenvector of a second moment: of the records themselves, or, in a regression, of the
whitened covariates weighted by how large their targets are. Exact fits compute it; private fits pay
for mean squares, the covariates' shape and the direction, and do not ask for what is known.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.bounded_sums import NO_CAP
from ...blocks.region import Region
from ...blocks.shrinkage import operator_noise, stands_out
from ...budget import Part
from ...core import Release, Stage
from ...ground import Ground
from ...linalg import Array, floor_eigenvalues, invert_cholesky, positive, smat, svec
from ...noise.exact import Exact
from .gradient_em import GradientSettings
from .model import Symmetric
from .query import DirectionsQuery, SquaresQuery

_SHARES = {"squares": 0.04, "shape": 0.06, "direction": 0.15}
_GAP = 0.623  # E (z^2 - 1)^2/(z^2 + 1) = 2 sqrt(2 pi e) erfc(1/sqrt 2) - 2


def exact_start(
    second: Array, regression: bool, known: float | None, init: Array | None, floor: float
) -> Generator[Stage, Release[Any], Symmetric]:
    """The start of an exact fit, from the second moment of all columns.

    ``known``: the noise variance; ``floor``: the least that an estimate of it may be.
    """
    total = float(second[-1, -1] if regression else np.trace(second))
    if regression:
        variance = known if known is not None else max(total / 2, floor)
        beta = init
        if beta is None:
            beta = yield from _exact_slope(second[:-1, :-1], total, variance)
        return Symmetric(beta, variance)
    values, vectors = np.linalg.eigh(second)
    d = len(second)
    rest = (total - values[-1]) / (d - 1) if d > 1 else total / 2
    variance = known if known is not None else max(float(rest), floor)
    beta = positive(vectors[:, -1])
    beta = beta * math.sqrt(max(float(values[-1]) - variance, 0.05 * total / d))
    return Symmetric(beta if init is None else init, variance)


def _exact_slope(
    second: Array, total: float, variance: float
) -> Generator[Stage, Release[Any], Array]:
    """Along the direction in which large targets lie, in whitened coordinates."""
    d, size = len(second), float(np.trace(second))
    floors = np.maximum(1e-9 * np.diag(second), 1e-9 * size / d + 1e-300)
    whitener = invert_cholesky(floor_eigenvalues(second, floors))
    # A region far beyond all records: nothing is pulled in.
    region = Region.around_origin(1e9 * math.sqrt(size) + 1e-150, d)
    target = Region.around_origin(1e9 * math.sqrt(total) + 1e-150, 1)
    query = DirectionsQuery(
        region, math.sqrt(d) / 2, whitener, target, max(total, 1e-300), cap_weight=NO_CAP
    )
    release = yield Stage(query, Exact(), "direction")
    _, vectors = np.linalg.eigh(smat(release.statistics.second, d))
    length = math.sqrt(max(total - variance, 0.05 * total))
    return positive(np.asarray(whitener.T @ vectors[:, -1] * length))


@dataclass(frozen=True)
class Start:
    """A private start: the state, in whitened coordinates, and what was found on the way.

    ``squares``: E |x|^2 and, in a regression, E y^2; ``whitener`` (d, d), if there is one.
    """

    state: Symmetric
    squares: Array
    whitener: Array | None


@dataclass(frozen=True)
class PrivateStart:
    """Squares, shape, direction; whatever is known is not asked."""

    settings: GradientSettings
    regression: bool

    @property
    def shape(self) -> bool:
        """Whether the covariates' second moment is released, to go on in whitened coordinates."""
        return self.regression and self.settings.method == "em"

    @property
    def squares(self) -> bool:
        """Whether mean squares are released."""
        given = self.settings
        unknown = given.variance is None or given.init is None
        return unknown or self.shape or given.wants_moments

    def parts(self, left: float) -> list[Part]:
        """The parts of an allowance spent here, of which ``left`` is left."""
        pairs = self.settings.d * (self.settings.d + 1) // 2
        sizes = {
            "squares": (1 + self.regression) * self.squares,
            "shape": pairs * self.shape,
            "direction": pairs * (self.settings.init is None),
        }
        return [
            Part(name, left * _SHARES[name], [("gaussian", size)])
            for name, size in sizes.items()
            if size
        ]

    def stages(self, ground: Ground) -> Generator[Stage, Release[Any], Start]:
        """Generate the stages."""
        squares = np.array([ground.region.radius**2, 1.0]) / 2
        if self.squares:
            squares = yield from self._mean_squares(ground)
        whitener = None
        if self.shape:
            whitener = yield from self._whitener(ground, float(squares[0]))
        if self.settings.init is not None:
            return Start(self._given(self.settings.init, squares, whitener), squares, whitener)
        state = yield from self._spectral(ground, squares, whitener)
        return Start(state, squares, whitener)

    def lost(self, ground: Ground) -> bool:
        """Whether noise hides the direction of a regression's start: from the noise alone.

        At best, y = <b, x> exactly, a record's h v v' is expected to be larger along b by
        E (z^2 - 1)^2/(z^2 + 1)/d, z standard normal, than across. That is to be compared with the
        operator norm of the noise. (Records of a mixture all point along b at best.)
        """
        if not self.regression or self.settings.init is not None:
            return False
        d, noise = self.settings.d, ground.allowance.multiplier("direction")
        twice = 2.0 if ground.allowance.neighbours == "replace-one" else 1.0
        return _GAP / d * ground.count < float(operator_noise(d, twice * noise * ground.cap_weight))

    def _mean_squares(self, ground: Ground) -> Generator[Stage, Release[Any], Array]:
        """E |x|^2, and E y^2 where there is a target; at least what their noise could hide.

        Covariates are taken to be what the model says, standard normal, where they do not stand out
        from that.
        """
        target, count = ground.target, ground.count
        radii = (ground.region.radius, *([] if target is None else [target.radius]))
        query = SquaresQuery(ground.region, radii, target, ground.cap_weight)
        release = yield ground.stage(query, "squares")
        noise = release.deviation
        assert noise is not None
        found = np.maximum(release.statistics.squares, noise.squares) / count
        if target is not None:
            model = min(self.settings.d / radii[0] ** 2, 1.0)
            blur = float(noise.squares[0]) / count
            found[:1] = model + stands_out(found[:1] - model, blur**2, model**2)
        return np.asarray(np.clip(found, 1e-6, 1.0) * np.square(radii))

    def _whitener(self, ground: Ground, square: float) -> Generator[Stage, Release[Any], Array]:
        """The inverse root of the covariates' second moment, as far as it stands out of noise."""
        d, radius = self.settings.d, 1.5 * math.sqrt(square)
        query = DirectionsQuery(ground.region, radius, cap_weight=ground.cap_weight)
        release = yield ground.stage(query, "shape")
        unit, count = radius**2, ground.count
        noise = release.deviation
        assert noise is not None
        second = smat(release.statistics.second, d) * (unit / count)
        level = square / d
        blur = float(noise.second[0]) * unit / count
        away = smat(stands_out(svec(second - level * np.eye(d)), blur**2, level**2), d)
        values, vectors = np.linalg.eigh(level * np.eye(d) + away)
        root = 1 / np.sqrt(np.clip(values, 0.02 * level, 50 * level))
        return np.asarray((vectors * root) @ vectors.T)

    def _given(self, beta: Array, squares: Array, whitener: Array | None) -> Symmetric:
        """A given start, and how much of the records' size it is taken to leave."""
        if whitener is not None:
            beta = np.asarray(np.linalg.solve(whitener, beta), dtype=np.float64)
        if self.settings.variance is not None:
            return Symmetric(beta, self.settings.variance)
        k = 1 if self.regression else self.settings.d
        total = float(squares[1] if self.regression else squares[0] / k)
        return Symmetric(beta, max(total - float(beta @ beta) / k, 0.1 * total))

    def _spectral(
        self, ground: Ground, squares: Array, whitener: Array | None
    ) -> Generator[Stage, Release[Any], Symmetric]:
        """Along the top eigenvector, as long as the mean squares say."""
        d, known = self.settings.d, self.settings.variance
        total = float(squares[1] if self.regression else squares[0])
        typical = math.sqrt(d if whitener is not None else float(squares[0]))
        square = total if self.regression else 1.0
        query = DirectionsQuery(
            ground.region, typical / 2, whitener, ground.target, square, ground.cap_weight
        )
        release = yield ground.stage(query, "direction")
        values, vectors = np.linalg.eigh(smat(release.statistics.second, d))
        top: Array = vectors[:, -1]
        if self.regression:
            variance = known if known is not None else total / 2
            length = math.sqrt(max(total - variance, 0.05 * total))
            # The covariates' deviation in the coordinates of the fit.
            spread = 1.0 if whitener is not None else math.sqrt(float(squares[0]) / d)
            return Symmetric(top * length / spread, variance)
        if known is not None:
            return Symmetric(top * math.sqrt(max(total - d * known, 0.05 * total)), known)
        along = float(np.clip(values[-1] / ground.count, 1.0 / d, 1.0)) * total
        variance = (total - along) / (d - 1) if d > 1 else total / 2
        variance = max(variance, 1e-3 * total / d)
        return Symmetric(top * math.sqrt(max(along - variance, 0.05 * total / d)), variance)
