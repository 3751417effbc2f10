"""Gradients of the expected log-likelihood times the variance, per record (Wang et al. 2023).

Each model maps bounded records, features along the first axis (c, b), to gradients (p, b) and the
expected squared residual (b,) that the variance's M-step wants. All are derived from Q(b; b) =
-E |residual|^2/(2 sigma^2) under the current parameters; the factor 1/sigma^2 is left out, so that
b + mean gradient is the M-step itself where the covariates have unit second moment.

``error(x, y)`` bounds what rounding does to the two, for features of norm at most x and a target of
size at most y; tanh is taken to be within 4 ulp. Derivations: ``docs/proofs/gradient.md``, section
2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from ..core import Scratch
from ..tree import Array
from . import conditions
from .rounding import U, gamma

__all__ = [
    "Gradient",
    "MissingCovariateGradient",
    "SymmetricGradient",
    "SymmetricRegressionGradient",
]


@runtime_checkable
class Gradient(Protocol):
    """A model's gradient under its current parameters. Public."""

    @property
    def size(self) -> int:
        """How many parameters."""

    def __call__(self, x: Array, raw: Array, scratch: Scratch) -> tuple[Array, Array]:
        """Gradients and squared residuals of bounded records; ``raw`` (b, c) shows the missing."""

    def error(self, x: float, y: float) -> tuple[float, float]:
        """Rounding of a gradient in L2, and of a squared residual."""

    def check(self, d: int, target: bool) -> None:
        """It is about d features, and about a target or not; refuses what would overflow."""


@dataclass(frozen=True)
class SymmetricGradient:
    """y = z b + noise, z = +-1 alike: (2w - 1) y - b with 2w - 1 = tanh(<b, y>/sigma^2)."""

    beta: Array
    variance: float
    travels = ("beta", "variance")

    @property
    def size(self) -> int:
        """One number per feature."""
        return len(self.beta)

    def __call__(self, x: Array, raw: Array, scratch: Scratch) -> tuple[Array, Array]:
        """Gradients, and |y|^2 - 2 (2w - 1) <y, b> + |b|^2."""
        along = self.beta @ x
        sign = np.tanh(along / self.variance)
        square = np.einsum("ij,ij->j", x, x) - 2 * sign * along + self.beta @ self.beta
        g = scratch.take("gradient", x.shape)
        np.multiply(x, sign, out=g)
        g -= self.beta[:, None]
        return g, square

    def error(self, x: float, y: float) -> tuple[float, float]:
        """With a = <b, y>/sigma^2 off by gamma_{d+4} |b| x/sigma^2, tanh no steeper than one."""
        b, d = float(np.linalg.norm(self.beta)), self.size
        sign = gamma(d + 4) * b * x / self.variance + 16 * U
        return (
            sign * x + 4 * U * (x + b),
            gamma(d + 8) * (x + b) ** 2 + 2 * sign * x * b,
        )

    def check(self, d: int, target: bool) -> None:
        """Of features alone."""
        conditions.need(not target)
        _check(self.beta, self.variance, d)


@dataclass(frozen=True)
class SymmetricRegressionGradient:
    """y = z <b, x> + noise: ((2w - 1) y - <x, b>) x with 2w - 1 = tanh(y <x, b>/sigma^2).

    Taken in the coordinates ``whitener @ x``, in which ``beta`` is given; ``None`` is x itself.
    """

    beta: Array
    variance: float
    whitener: Array | None = None
    travels = ("beta", "variance", "whitener")

    @property
    def size(self) -> int:
        """One number per feature."""
        return len(self.beta)

    def __call__(self, x: Array, raw: Array, scratch: Scratch) -> tuple[Array, Array]:
        """Gradients, and y^2 - 2 (2w - 1) y <x, b> + <x, b>^2; the last row of x is y."""
        y, g = x[-1], scratch.take("gradient", (self.size, x.shape[1]))
        if self.whitener is None:
            g[:] = x[:-1]
        else:
            np.matmul(self.whitener, x[:-1], out=g)
        fitted = self.beta @ g
        sign = np.tanh(y * fitted / self.variance)
        square = y * y - 2 * sign * y * fitted + fitted * fitted
        g *= sign * y - fitted
        return g, square

    def error(self, x: float, y: float) -> tuple[float, float]:
        """The whitened x errs by gamma_d |W| x; all else follows from it."""
        b, d = float(np.linalg.norm(self.beta)), self.size
        stretch = 1.0 if self.whitener is None else float(np.linalg.norm(self.whitener))
        size = stretch * x
        moved = 0.0 if self.whitener is None else gamma(d + 1) * size
        f, f_off = b * size, gamma(2 * d + 4) * b * size
        sign = (y * f_off + gamma(4) * y * f) / self.variance + 16 * U
        residual = sign * y + f_off + 4 * U * (y + f)
        return (
            residual * (size + moved) + (y + f) * (moved + 4 * U * size),
            2 * sign * y * f + 2 * (y + f) * f_off + f_off**2 + 16 * U * (y + f) ** 2,
        )

    def check(self, d: int, target: bool) -> None:
        """Of a target and d features, whitened or not."""
        conditions.need(target)
        _check(self.beta, self.variance, d)
        if self.whitener is not None:
            conditions.shaped((d, d), self.whitener)
            conditions.magnitudes(self.whitener)


@dataclass(frozen=True)
class MissingCovariateGradient:
    """y = <b, x> + noise, x standard normal with entries missing at random (NaN).

    With D = sigma^2 + |b_mis|^2 and r = y - <b_obs, x_obs>, the expectations reduce to
    r x_obs sigma^2/D on observed entries and b_mis (sigma^2/D)(r^2/D - 1) on missing ones: m (y -
    <m, b>) - V b with m = (x_obs, r b_mis/D) and V = diag(missing) - b_mis b_mis'/D.
    """

    beta: Array
    variance: float
    travels = ("beta", "variance")

    @property
    def size(self) -> int:
        """One number per feature."""
        return len(self.beta)

    def __call__(self, x: Array, raw: Array, scratch: Scratch) -> tuple[Array, Array]:
        """Gradients, and (r sigma^2/D)^2 + |b_mis|^2 sigma^2/D; the last row of x is y."""
        y, g = x[-1], scratch.take("gradient", (self.size, x.shape[1]))
        missing = np.isnan(raw[:, :-1].T)
        np.copyto(g, x[:-1])
        g[missing] = 0.0
        residual = y - self.beta @ g
        hidden = (self.beta**2) @ missing
        total = self.variance + hidden
        share = self.variance / total
        g *= residual * share
        factor = share * (residual**2 / total - 1)
        g += (self.beta[:, None] * missing) * factor
        return g, (residual * share) ** 2 + hidden * share

    def error(self, x: float, y: float) -> tuple[float, float]:
        """Sums of d terms, and D >= sigma^2 with relative error gamma_{d+4}."""
        b, d = float(np.linalg.norm(self.beta)), self.size
        r = y + b * x
        relative = gamma(4 * d + 48)
        return (
            relative * (r * x + b * (r * r / self.variance + 1) + b),
            relative * (r * r + b * b),
        )

    def check(self, d: int, target: bool) -> None:
        """Of a target and d features."""
        conditions.need(target)
        _check(self.beta, self.variance, d)


def _check(beta: Array, variance: float, d: int) -> None:
    conditions.shaped((d,), beta)
    conditions.magnitudes(beta)
    conditions.ordinary(variance)
