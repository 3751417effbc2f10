"""How latent classes are fitted: exactly, and on noisy tables."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...blocks.moments import SumsQuery
from ...budget import Allowance, Iterated, Part
from ...core import Release, Stage
from ...em import ExactEM, Fit, LateMean, PrivateEM
from ...ground import Ground, Preamble, PrivateFit
from ...noise.exact import Exact
from ...tape import given, held
from . import model as lca
from .model import CategoricalModel, Classes, ClassQuery, PairsQuery

_PAIRS_SHARE = 0.15


@dataclass(frozen=True)
class ExactClasses:
    """Pairs, then EM, from so many starts."""

    sizes: tuple[int, ...]
    components: int
    max_iter: int
    tol: float
    n_init: int
    rng: np.random.Generator

    def stages(self) -> Generator[Stage, Release[Any], Fit[Classes]]:
        """The plan."""
        sums = (yield Stage(SumsQuery(), Exact(), "sums")).statistics
        if int(sums.rows) < self.components:
            raise ValueError(
                f"n_samples={int(sums.rows)} row(s) of data, but at least {self.components} are "
                "needed for this number of components"
            )
        if not float(sums.count) > 0:
            raise ValueError("the sample weights sum to zero: no record counts")
        second = (yield Stage(PairsQuery(self.sizes), Exact(), "pairs")).statistics.second
        fits: list[Fit[Classes]] = []
        for _ in range(self.n_init):
            known = (second, self.sizes, float(sums.count), self.components)
            model, start = CategoricalModel(self.sizes), lca.spectral_classes(*known, self.rng)
            em = ExactEM(model, start, self.max_iter, lambda gain, a, b: gain < self.tol)
            fits.append((yield from em.stages()))
        return max(fits, key=lambda fit: fit.objective)


@dataclass(frozen=True)
class PrivateClasses(Iterated):
    """Count, pairs, then EM on noisy tables; the mean of the second half."""

    preamble: Preamble
    sizes: tuple[int, ...]
    components: int
    n_iter: int | None
    max_iter: int
    rng: np.random.Generator

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        p, left, k = sum(self.sizes), 1.0 - self.preamble.share(), self.components
        return [
            *self.preamble.parts(),
            Part("pairs", left * _PAIRS_SHARE, [("gaussian", p * (p + 1) // 2)]),
            Part("em", left * (1 - _PAIRS_SHARE), [("gaussian", k * (1 + p))] * self.planned),
        ]

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateFit[Classes]]:
        """The plan."""
        ground = yield from self.preamble.stages(allowance)
        cap = ground.cap_weight
        state = yield from given(self._start(ground))
        model = CategoricalModel(self.sizes, cap, ground.count)
        total = held(lambda: self._iterations(model.query(state), ground.count, allowance))
        noise = ground.noise("em", total)
        path = LateMean(state, total, "weights", "profiles")
        mean = yield from PrivateEM(model, state, total, lambda t: noise, path).stages()
        weights, profiles = mean.weights / mean.weights.sum(), model.valid(mean.profiles, 0.0)
        return PrivateFit(Classes(weights, profiles), ground, total)

    def _start(self, ground: Ground) -> Generator[Stage, Release[Any], Classes]:
        release = yield ground.stage(PairsQuery(self.sizes, ground.cap_weight), "pairs")
        known = (release.statistics.second, self.sizes, ground.count, self.components)
        return lca.spectral_classes(*known, self.rng)

    def _iterations(self, query: ClassQuery, count: float, allowance: Allowance) -> int:
        """As many as keep a class's share known to a tenth in each; data-free."""
        if self.n_iter is not None or not allowance.adaptive:
            return self.planned
        moved = query.groups(allowance.neighbours)[0].sensitivity
        level = allowance.multiplier("em", 1) * moved * self.components / count
        return int(min(max((0.1 / level) ** 2, 4), self.max_iter))
