"""How often categories occur together, and where latent classes start from that alone.

*Sensitivity of the pairs.* A record is the indicator vector e of :mod:`.model`. With v = e /
sqrt(d), |v| <= 1, it contributes svec(v v'), of norm |v|^2 <= 1; <v v', u u'> = <v, u>^2 >= 0, so
replacing one moves the sum by at most sqrt(2). Weights and persons multiply both by the cap on
weights (:mod:`privem.blocks.sensitivity`).

*What pairs say.* Within a class columns are independent. So over different columns the matrix of
pairs is sum_k w_k pi_k pi_k', with weights w and profiles pi. Its noise is the same in every cell,
so profiles are fitted to it by least squares, as probabilities in every column. They need no look
at the records. They are not unique, and there are local optima: several are tried, and the best is
kept. That is arithmetic on a release, and costs nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...blocks.sensitivity import UP, capped, moved
from ...core import Block, Group, Scratch
from ...linalg import Array, gamma, smat, svec
from .model import CategoricalModel, Classes, block_rows, check_codes, indicators

# Starts that are tried where there are more than two classes, and rounds of least squares: for each
# of them, and more for the best.
_TRIES, _ROUNDS, _MORE = 4, 20, 40
# No class is taken for less than this share of an equal part.
_LEAST_PART = 0.01


@dataclass(frozen=True)
class Pairs:
    """Packed second moment of the indicators, divided by d."""

    second: Array


@dataclass(frozen=True)
class PairsQuery:
    """How often categories occur together: where the classes lie, without an idea of them."""

    sizes: tuple[int, ...]
    cap_weight: float | None = None
    travels = ("sizes", "cap_weight")

    @property
    def block_rows(self) -> int:
        """Blocks of about a megabyte."""
        return block_rows(self.sizes)

    def __call__(self, block: Block, scratch: Scratch) -> Pairs:
        """Sum a block."""
        e = indicators(block.X, self.sizes, scratch)
        weight = block.weight
        if self.cap_weight is not None:
            weight = capped(weight, self.cap_weight, len(block.X))
        weighted = e if weight is None else e * weight
        return Pairs(svec((weighted @ e.T) / len(self.sizes)))

    def groups(self, neighbours: str) -> list[Group]:
        """One group; derived above."""
        p = sum(self.sizes)
        bound = math.sqrt(moved(neighbours, 1, 2)) * (self.cap_weight or 1.0) * UP
        return [Group("pairs", slice(0, p * (p + 1) // 2), bound)]

    def rounding(self, rows: float) -> float:
        """Sums of zeros and weights, over d, times sqrt(2): all terms are positive."""
        return rows * gamma(self.block_rows + 32)

    def check(self, d: int, private: bool) -> None:
        """Categories of all columns."""
        check_codes(self.sizes, self.cap_weight, d, private)

    def largest(self, low: Array, high: Array) -> Array:
        """Zeros and ones over d; off the diagonal they are packed times sqrt(2)."""
        p = sum(self.sizes)
        return np.full(p * (p + 1) // 2, 1.5 / len(self.sizes))


@dataclass(frozen=True)
class Dependences:
    """What pairs say of the columns: marginals (p,), and the main axes (p, K - 1) of dependence.

    Across columns the covariance of the indicators is sum_k w_k (profile_k - mean)(...)', of rank
    K - 1; within a column it is not, so those blocks are filled in from the rest (principal
    factors).
    """

    model: CategoricalModel
    marginal: Array
    axes: Array

    @classmethod
    def of(cls, matrix: Array, model: CategoricalModel, k: int) -> Dependences:
        """From pairs as shares of the records, (p, p)."""
        p, inside = len(matrix), model.inside
        marginal = model.valid(np.diag(matrix), 0.01 / model.spread_sizes)
        covariance = np.where(inside, 0.0, np.clip(matrix, 0.0, 1.0) - np.outer(marginal, marginal))
        rank = min(k - 1, p)
        axes = np.zeros((p, rank))
        for _ in range(20):
            values, vectors = np.linalg.eigh(covariance)
            axes = vectors[:, p - rank :] * np.sqrt(np.maximum(values[p - rank :], 0.0))
            covariance = np.where(inside, axes @ axes.T, covariance)
        return cls(model, marginal, axes)

    def classes(self, k: int, rng: np.random.Generator) -> Classes:
        """Classes on the corners of a regular simplex along the axes, turned at random.

        There is nothing to turn for two classes.
        """
        p, rank = self.axes.shape
        corners = np.linalg.qr(np.eye(k) - 1 / k)[0][:, :rank] * math.sqrt(k)
        turn = np.linalg.qr(rng.standard_normal((rank, rank)))[0] if rank else np.zeros((0, 0))
        # Never quite alike: a class that sits on the marginals would stay there.
        jitter = 0.02 * rng.standard_normal((k, p)) * self.marginal
        profiles = self.marginal + corners @ turn @ self.axes.T + jitter
        return Classes(np.full(k, 1 / k), self.model.valid(profiles, 0.1 * self.marginal))


def shares_of_pairs(pairs: Pairs, sizes: tuple[int, ...], count: float) -> Array:
    """Pairs as shares of so many records, (p, p)."""
    matrix = np.clip(np.nan_to_num(smat(pairs.second, sum(sizes))), -1e150, 1e150)
    return np.asarray(matrix * (len(sizes) / max(count, 1.0)))


def classes_from_pairs(
    pairs: Pairs, sizes: tuple[int, ...], count: float, k: int, rng: np.random.Generator
) -> Classes:
    """The start of a private fit: the classes that fit noisy pairs best, of several tried."""
    model = CategoricalModel(sizes)
    matrix = np.clip(shares_of_pairs(pairs, sizes, count), -10.0, 10.0)
    apart, found = np.where(model.inside, 0.0, matrix), Dependences.of(matrix, model, k)
    tries = [
        fitted_to_pairs(apart, model, found.classes(k, rng), _ROUNDS)
        for _ in range(_TRIES if k > 2 else 1)
    ]
    best, _ = fitted_to_pairs(apart, model, min(tries, key=lambda each: each[1])[0], _MORE)
    marginal = model.valid(model.nearest(np.diag(matrix)[None])[0], 0.01 / model.spread_sizes)
    floor = 0.1 * np.minimum(marginal, 1 / model.spread_sizes)
    return Classes(best.weights, model.valid(best.profiles, floor))


def fitted_to_pairs(
    pairs: Array, model: CategoricalModel, start: Classes, rounds: int
) -> tuple[Classes, float]:
    """Least squares, one class after another; and the squared error, less that of nothing.

    ``pairs`` (p, p) are zero within columns. Given the others, the profile of class k that fits
    best, were it free on one side, is R pi_k / (w_k |pi_k|^2) with R = pairs less the others'. The
    mean of that and pi_k is pulled onto probabilities. Weights are then least squares too.
    """
    weights, profiles = start.weights.copy(), model.nearest(start.profiles)
    k, error = len(weights), 0.0
    for _ in range(rounds):
        for i in range(k):
            others = np.arange(k) != i
            common = profiles[others] * profiles[i]
            # What the others say, over columns that differ: (pi_l pi_l' - its blocks) pi_i.
            apart = common.sum(axis=1, keepdims=True) - model.per_column(common)
            rest = pairs @ profiles[i] - weights[others] @ (profiles[others] * apart)
            square = profiles[i] ** 2
            size = weights[i] * (square.sum() - model.per_column(square))
            free = rest / np.maximum(size, 1e-9)
            profiles[i] = model.nearest((free + profiles[None, i]) / 2)[0]
        common = profiles[:, None] * profiles
        gram = common.sum(axis=2) ** 2 - np.sum(model.column_sums(common) ** 2, axis=2)
        fit = np.einsum("ka,ab,kb->k", profiles, pairs, profiles, optimize=True)
        ridge = 1e-9 * max(float(np.trace(gram)), 1e-9) * np.eye(k)
        weights = np.maximum(np.linalg.solve(gram + ridge, fit), _LEAST_PART / k)
        weights /= weights.sum()
        error = float(weights @ gram @ weights - 2 * weights @ fit)
    return Classes(weights, profiles), error
