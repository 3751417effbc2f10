"""How latent classes are fitted: exactly, and on noisy tables."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...blocks.log_density import ContestQuery
from ...blocks.moments import SumsQuery
from ...budget import Allowance, Iterated, Part
from ...core import Release, Stage
from ...em import ExactEM, Fit, PooledEM
from ...ground import ALL_ALIKE, Ground, Preamble, PrivateFit, without_evidence
from ...linalg import Array
from ...noise.exact import Exact
from ...run import given, held
from .model import CategoricalModel, Classes, ClassLogDensity, ClassSums
from .pairs import Dependences, PairsQuery, classes_from_pairs, shares_of_pairs

# Of what the count leaves.
_PAIRS_SHARE, _CONTEST_SHARE = 0.15, 0.05
# A class's share of the records is to be known to this part of itself in each iteration.
_LEVEL = 0.1
# Where one release with all of EM's budget would not tell it from this part, one class serves all.
_DROWNED = 0.2
# More iterations than this never helped.
_MOST = 40


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
        pairs = (yield Stage(PairsQuery(self.sizes), Exact(), "pairs")).statistics
        model = CategoricalModel(self.sizes)
        matrix = shares_of_pairs(pairs, self.sizes, float(sums.count))
        dependences = Dependences.of(matrix, model, self.components)
        fits: list[Fit[Classes]] = []
        for _ in range(self.n_init):
            start = dependences.classes(self.components, self.rng)
            em = ExactEM(model, start, self.max_iter, lambda gain, a, b: gain < self.tol)
            fits.append((yield from em.stages()))
        return max(fits, key=lambda fit: fit.objective)


@dataclass(frozen=True)
class PrivateClasses(Iterated):
    """Count, pairs, EM on noisy tables; then, whether the classes are worth having.

    One class, or as many as noise drowns, need one table only.

    Parameters
    ----------
    preamble : Preamble
    sizes : tuple of int
        Categories per column.
    components : int
    n_iter : int or None
    max_iter : int
    rng : Generator
    compared : bool
        Whether a contest tells classes from one table for all records.
    """

    preamble: Preamble
    sizes: tuple[int, ...]
    components: int
    n_iter: int | None
    max_iter: int
    rng: np.random.Generator
    compared: bool = True

    def parts(self) -> list[Part]:
        """How the budget is shared out."""
        p, left, k = sum(self.sizes), 1.0 - self.preamble.share(), self.components
        parts, each = self.preamble.parts(), [("gaussian", k * (1 + p))] * self.planned
        if k == 1:
            return [*parts, Part("em", left, each)]
        parts.append(Part("pairs", left * _PAIRS_SHARE, [("gaussian", p * (p + 1) // 2)]))
        rest = left * (1 - _PAIRS_SHARE)
        if self.compared:
            parts.append(Part("contest", left * _CONTEST_SHARE, [("gaussian", 1)]))
            rest -= left * _CONTEST_SHARE
        return [*parts, Part("em", rest, each)]

    def ruled_out(self, ground: Ground) -> str | None:
        """Why so many classes are too many for the noise, if they are; from that alone."""
        model = CategoricalModel(self.sizes, ground.cap_weight, ground.count)
        _, single = self._iterations(model, ground)
        return ALL_ALIKE if single and self.components > 1 else None

    def stages(self, allowance: Allowance) -> Generator[Stage, Release[Any], PrivateFit[Classes]]:
        """The plan."""
        ground = yield from self.preamble.stages(allowance)
        model = CategoricalModel(self.sizes, ground.cap_weight, ground.count)
        total, single = held(lambda: self._iterations(model, ground))
        if single:
            if allowance.adaptive:
                merged = ground.allowance.merged("em", "pairs", "contest")
                ground = replace(ground, allowance=merged)
            state, first = self._uniform(), 0
        else:
            state = yield from given(self._start(ground))
            first = total // 3
        noise = ground.noise("em", total)
        em = PooledEM(model, state, total, lambda t: noise, first)
        found, release = yield from em.stages()
        beaten = False
        if not single and self.compared:
            other = self._one_for_all(model, release)
            if not (yield from self._contest(found, other, ground)):
                found, single, beaten = other, True, True
        structure = "single" if single and self.components > 1 else "full"
        lost = () if single else without_evidence(_in_deviations(release))
        state = self._repeated(found)
        return PrivateFit(state, ground, total, structure, lost=lost, beaten=beaten)

    def _start(self, ground: Ground) -> Generator[Stage, Release[Any], Classes]:
        release = yield ground.stage(PairsQuery(self.sizes, ground.cap_weight), "pairs")
        known = (release.statistics, self.sizes, ground.count, self.components)
        return classes_from_pairs(*known, self.rng)

    def _contest(
        self, classes: Classes, one: Classes, ground: Ground
    ) -> Generator[Stage, Release[Any], bool]:
        """Whether records are more likely under the classes than under one table for all.

        By more than classes gain on records that they were fitted to (Akaike). Log-probabilities of
        d columns differ by some nats each, in either direction: their sum is clipped at 2 sqrt(d).
        """
        d, cap = len(self.sizes), ground.cap_weight
        first, second = (ClassLogDensity(state, self.sizes) for state in (classes, one))
        query = ContestQuery(first, second, 2.0 * math.sqrt(d), cap)
        release = yield ground.stage(query, "contest")
        more = (self.components - 1) * (1 + sum(self.sizes) - d)
        return held(lambda: bool(float(release.statistics.total[0]) > more))

    def _iterations(self, model: CategoricalModel, ground: Ground) -> tuple[int, bool]:
        """How many, and whether there is but one class; from the noise level alone.

        A class's share is known to a tenth in each iteration.
        """
        allowance, k = ground.allowance, self.components
        moved = model.query(self._uniform()).groups(allowance.neighbours)[0].sensitivity
        level = allowance.multiplier("em", 1) * moved * k / ground.count
        single = k == 1 or level > _DROWNED
        if self.n_iter is not None or not allowance.adaptive:
            return self.planned, single
        if single:
            return 1, True
        return int(min(max((_LEVEL / level) ** 2, 4), self.max_iter, _MOST)), False

    def _uniform(self) -> Classes:
        """One class in which all categories are as likely."""
        flat = np.repeat(1 / np.asarray(self.sizes, dtype=float), self.sizes)
        return Classes(np.ones(1), flat[None])

    def _one_for_all(self, model: CategoricalModel, release: Release[ClassSums]) -> Classes:
        """One class, of the tables of all."""
        sums, noise = release.statistics, release.deviation
        assert noise is not None
        total = ClassSums(_sum(sums.count), _sum(sums.table))
        spread = ClassSums(np.sqrt(_sum(noise.count**2)), np.sqrt(_sum(noise.table**2)))
        return model.m_step(self._uniform(), Release(release.query, total, spread))

    def _repeated(self, state: Classes) -> Classes:
        """As many classes as were asked for, all alike where there is one."""
        k = self.components
        if len(state.weights) == k:
            return state
        return Classes(np.full(k, 1 / k), np.repeat(state.profiles, k, axis=0))


def _in_deviations(release: Release[ClassSums]) -> Array:
    """Records of each class, in deviations of their noise."""
    assert release.deviation is not None
    return np.asarray(release.statistics.count / release.deviation.count)


def _sum(numbers: Array) -> Array:
    return np.asarray(numbers.sum(axis=0, keepdims=True))
