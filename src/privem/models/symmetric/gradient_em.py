"""EM on noisy sums of bounded gradients: what the models run by the private loop share.

Two ways to go, both from public numbers, run by :class:`privem.em.PrivateEM`:

- :class:`GradientEM`, the one of the papers (Algorithms 1 and 2 of Wang et al. 2023): clip at a
  given norm or truncate robustly, take T steps of a given size on the whole data or a cell each,
  average the second half.
- :class:`ClippedEM`, the default: residuals about the last public iterate are clipped near their
  own typical length, sigma sqrt(d); where exactly, the noise level tells. Residuals are symmetric
  about zero at the solution, so clipping moves it little, and costs a known factor of the step's
  length, which is put back (:func:`privem.blocks.bounding.slope`). Each iteration gets twice the
  budget of the one before. Where they lead: :mod:`~privem.models.symmetric.path`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ...blocks.bounded_sums import Cell
from ...blocks.bounding import Bounding, Clip, slope
from ...blocks.gradient import BoundedGradientQuery, Gradient, GradientSums, Squares
from ...blocks.robust_mean import papers_scale
from ...blocks.shrinkage import consistency
from ...budget import Part
from ...core import Release
from ...em import LateMean, PrivateEM
from ...ground import Ground
from ...linalg import Array
from ...noise.discrete import Discrete
from .model import Symmetric
from .path import NoisyState, Residuals

# Each iteration gets this many times the budget of the one before, and the last no more than so
# many times that of the first.
_GROWTH, _RANGE = 2.0, 32.0
# The squares' share of a joint release: its length grows by 4%.
SQUARES = 0.3
# Iterations, where nobody has said how many.
_USUAL = {"em": 6, "gradient": 5, "moments": 1}


@dataclass(frozen=True)
class GradientSettings:
    """What a private fit by gradients is to do. All public.

    Parameters
    ----------
    d : int
        Features.
    method : {"em", "gradient", "moments"}
        EM by clipped residuals or scoring; gradient EM; one release of moments.
    mechanism : {"clip", "robust"}
        Of gradients.
    n_iter : int or None
    most : int
        Iterations, at most.
    variance : float or None
        Known noise variance.
    init : array of shape (d,) or None
        Start.
    clip, tau : float or None
        Of gradients: the norm to clip at; the bound on their coordinates' second moment.
    step : float
    averaging, partition : bool
    terms : (epsilon, delta, failure probability)
        For the papers' parameters.
    """

    d: int
    method: str
    mechanism: str
    n_iter: int | None
    most: int
    variance: float | None
    init: Array | None
    clip: float | None
    tau: float | None
    step: float
    averaging: bool
    partition: bool
    terms: tuple[float, float, float]

    @property
    def iterations(self) -> int:
        """How many."""
        return 1 if self.method == "moments" else min(self.n_iter or _USUAL[self.method], self.most)

    @property
    def wants_moments(self) -> bool:
        """Whether the second moment of a gradient's coordinate has to be found."""
        return self.method == "gradient" and self.mechanism == "robust" and self.tau is None

    def parts(self, share: float, size: int) -> list[Part]:
        """The parts of an allowance that EM spends, of releases of ``size`` numbers each."""
        if self.method != "em":
            releases = 1 if self.partition else self.iterations
            return [Part("em", share, [("gaussian", size)] * releases)]
        growth = min(_GROWTH, _RANGE ** (1 / max(self.iterations - 1, 1)))
        shares = growth ** np.arange(self.iterations)
        shares *= share / shares.sum()
        return [Part(f"EM {t}", float(s), [("gaussian", size)]) for t, s in enumerate(shares, 1)]

    def gradient_em(
        self,
        ground: Ground,
        gradient: Callable[[Symmetric], Gradient],
        start: Symmetric,
        moment: float,
    ) -> PrivateEM[Symmetric]:
        """Gradient EM; ``moment``: of a gradient's coordinate, as far as it was found."""
        cells = self.iterations if self.partition else None
        # On devices everyone answers one stage.
        batch = ground.count / max(cells or 1, ground.allowance.rounds)
        bounding = self._bounding(moment, batch)
        model = GradientEM(ground, gradient, bounding, start, self.step, cells)
        path = LateMean(start, self.iterations, *["beta"] * self.averaging)
        noise = ground.noise("em")
        return PrivateEM(model, start, self.iterations, lambda t: noise, path, "step")

    def _bounding(self, moment: float, count: float) -> Bounding:
        if self.mechanism == "clip":
            return Clip(1.0 if self.clip is None else self.clip)
        tau = moment if self.tau is None else self.tau
        return papers_scale("algorithm 2", tau, count, *self.terms)


def iteration_noise(ground: Ground) -> Callable[[int], Discrete]:
    """The noise of each iteration, whose parts are named ``"EM 1"``, ``"EM 2"``, ..."""
    return lambda t: ground.noise(f"EM {t + 1}")


def em_noise(ground: Ground) -> float:
    """Noise on a sum of bounded gradients over all, per unit of their bound and sqrt(n)."""
    allowance = ground.allowance
    # On devices whoever answers spends everything on one message, whichever it is.
    em = sum(part.share for part in allowance.parts if part.name.startswith("EM"))
    share = em if allowance.rounds == 1 else 1.0
    twice = 2.0 if allowance.neighbours == "replace-one" else 1.0
    return twice * allowance.base / math.sqrt(share * ground.count)


@dataclass(frozen=True)
class ClippedEM:
    """EM by residuals clipped at their typical length.

    Parameters
    ----------
    ground : Ground
    gradient : callable
        From a state to its gradient.
    kind : {"vector", "product"}
        Of residuals (:mod:`privem.blocks.bounding`).
    radius : float
        Clip there, in deviations of the residual.
    dimension : int
        Of what has the variance: d, or 1 in a regression.
    known : bool
        Whether the variance is known; else it is released beside the gradient.
    """

    ground: Ground
    gradient: Callable[[Symmetric], Gradient]
    kind: str
    radius: float
    dimension: int
    known: bool

    @property
    def _cap(self) -> float:
        """Where squared residuals are capped, in variances."""
        return self.dimension + 2 * math.sqrt(3 * self.dimension) + 6

    def query(self, state: NoisyState, round: int = 0) -> BoundedGradientQuery:
        """The sum of clipped gradients."""
        clip, squares = self.radius * math.sqrt(state.variance), None
        if not self.known:
            cap = self._cap * state.variance
            squares = Squares(SQUARES * clip / cap, cap)
        return gradient_query(self.ground, self.gradient(state), Clip(clip), squares)

    def m_step(self, state: NoisyState, release: Release[GradientSums]) -> NoisyState:
        """A step as long as an unclipped one, and what residuals say of the variance."""
        sums, noise, count = release.statistics, release.deviation, self.ground.count
        asked: Symmetric = release.query.model
        assert noise is not None
        length = count * slope(self.kind, len(state.beta), self.radius)
        beta = asked.beta + sums.total / length
        blur, residuals = float(noise.total[0] / length) ** 2, None
        squares = release.query.squares
        if squares is not None and sums.square is not None and noise.square is not None:
            k = self.dimension
            unit = k * consistency(k, math.sqrt(self._cap))
            deviation = float(noise.square[0]) / (squares.weight * count * unit)
            residuals = Residuals(sums.square / (squares.weight * count), unit, deviation)
        return NoisyState(beta, asked.variance, blur, residuals)


@dataclass(frozen=True)
class GradientEM:
    """Gradient EM with bounded gradients, full batch or one cell per step.

    Parameters
    ----------
    ground, gradient
        As in :class:`ClippedEM`.
    bounding : Bounding
    start : Symmetric
    size : float
        Times the mean gradient (eta; the paper has the gradient over the variance, and eta in the
        variance's units).
    cells : int, optional
        One cell per step: a partition of the data.
    """

    ground: Ground
    gradient: Callable[[Symmetric], Gradient]
    bounding: Bounding
    start: Symmetric
    size: float = 1.0
    cells: int | None = None

    def query(self, state: Symmetric, round: int = 0) -> BoundedGradientQuery:
        """The sum of bounded gradients, over the cell of the round where there are cells.

        Noise may have led to where sums have no error bound (public: no row was asked): the start
        is as good a guess, and had one.
        """
        cell = None if self.cells is None else Cell(round, self.cells)
        queries = (
            gradient_query(self.ground, self.gradient(now), self.bounding, cell=cell)
            for now in (state, self.start)
        )
        query = next(queries)
        return query if math.isfinite(query.rounding(self.ground.rows)) else next(queries)

    def m_step(self, state: Symmetric, release: Release[GradientSums]) -> Symmetric:
        """A step along the mean gradient, from where it was asked."""
        mean = release.statistics.total / (self.ground.count / (self.cells or 1))
        beta = release.query.model.beta + self.size * mean
        # Signed records have the mean b, and targets the mean square |b|^2 at least: neither is
        # larger than the public bounds. (The paper, too, keeps to a ball.)
        widest = (self.ground.target or self.ground.region).radius
        most = max(widest, float(np.linalg.norm(self.start.beta)))
        with np.errstate(over="ignore"):  # an infinite length is pulled in to nothing
            beta = beta * min(1.0, most / max(float(np.linalg.norm(beta)), 1e-300))
        return replace(state, beta=beta)


def gradient_query(
    ground: Ground,
    gradient: Gradient,
    bounding: Bounding,
    squares: Squares | None = None,
    cell: Cell | None = None,
) -> BoundedGradientQuery:
    """The sum of bounded gradients of records in their regions."""
    return BoundedGradientQuery(
        gradient, bounding, ground.region, ground.target, squares, ground.cap_weight, cell
    )
