"""The structure of a private mixture: which one the noise supports, and a mixture brought into it.

:func:`choose` looks at the noise alone, and says which covariance type, one Gaussian or several,
and how many iterations. A :func:`contest` then shows whether records are more likely under the
mixture than under one Gaussian. The others turn a mixture into one of another covariance type, of
fewer components, into copies of one Gaussian, or into other coordinates: a private fit works in
unit coordinates of its region (:class:`privem.blocks.region.Region`).
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...blocks.log_density import ContestQuery
from ...blocks.region import Background, Region
from ...blocks.shrinkage import Groups, alike, operator_noise, weights_of
from ...core import Release, Stage
from ...ground import ALL_ALIKE, Ground
from ...linalg import Array
from .density import GaussianLogDensity, forecast_weight
from .m_step import Prior
from .model import Mixture

# More iterations than this never helped.
MOST_ITERATIONS = 30
# Relative noise on a covariance, all budget in one release, beyond which a simpler one is better.
_MOST_NOISE = 0.6
# The same of a pooled one, beyond which one Gaussian with all of the budget is better.
MOST_POOLED = 0.2
# The same of a covariance, beyond which fewer components are better: where EM starts near its end,
# and where it has to search (experiments/selection).
_MOST_NEAR, _MOST_FAR = 0.4, 0.15
# Relative noise on a covariance in one iteration: as much as it bears where many iterations are
# needed; and less where EM starts near its end, and noise is all that later ones add.
FAR, NEAR = 0.7, 0.45
# No record says more in a contest than so many nats: as many as leave its noise at a twentieth of a
# nat. A mixture may be good for most records, and very bad for some.
_LIMITS, _CONTEST_NOISE = (4.0, 64.0), 0.05
# Variances of a given start, in unit coordinates.
_NARROWEST, _WIDEST = 1e-12, 1e12


@dataclass(frozen=True)
class Structure:
    """What the noise supports: ``single``, ``tied`` or the type asked for; iterations.

    ``beaten``: it is single because a contest said so. ``lost``: components that noise has
    swallowed. ``noise``: on a covariance, relative to it, all of EM's budget in one release;
    ``bears``: as much as is better than fewer components.
    """

    covariance_type: str
    single: bool
    iterations: int
    beaten: bool = False
    lost: tuple[int, ...] = ()
    noise: float = 0.0
    bears: float = 0.0

    @property
    def name(self) -> str:
        """In a word: what the fit really has."""
        return "single" if self.single else self.covariance_type


def choose(
    covariance_type: str,
    components: int,
    d: int,
    count: float,
    sensitivity: float,
    n_iter: int | None,
    max_iter: int = MOST_ITERATIONS,
    noise: float = FAR,
    pooled_noise: float = _MOST_NOISE,
) -> Structure:
    """Choose structure and iterations (at most ``max_iter``) from the noise level alone.

    ``sensitivity``: noise deviation of a second-moment entry if the whole EM budget went into one
    release. ``noise``: what an iteration bears; ``pooled_noise``: what a pooled covariance bears in
    one release.
    """
    full = float(operator_noise(d, sensitivity)) / (count / components)
    if covariance_type in ("diag", "spherical"):
        full /= math.sqrt(d / 2) * 2
    pooled = full / components
    tied = covariance_type == "full" and full > _MOST_NOISE
    level = pooled if tied else full
    iterations = n_iter or min(int(np.clip((noise / level) ** 2, 3, MOST_ITERATIONS)), max_iter)
    kind, own = "tied" if tied else covariance_type, pooled if covariance_type == "tied" else full
    most = _MOST_FAR if noise == FAR else _MOST_NEAR
    return Structure(kind, pooled > pooled_noise, iterations, noise=own, bears=most)


def too_many(components: int, structure: Structure) -> str | None:
    """Why fewer components would describe the records better, if so; from the noise alone.

    A second component gains by far the most: two are too many only where noise hides any mixture.
    """
    if structure.single:
        return ALL_ALIKE
    if components <= 2 or structure.noise <= structure.bears:
        return None
    return f"noise would be {structure.noise:.0%} of a component's covariance"


def contest(mixture: Mixture, one: Mixture, ground: Ground) -> Generator[Stage, Release[Any], bool]:
    """Whether records are more likely under a mixture than under one Gaussian; generates a stage.

    By more than a mixture gains on records it was fitted to (Akaike). Both are in the data's
    coordinates.
    """
    region, count = ground.region, ground.count
    flat = Background(forecast_weight(region.d, ground.allowance.base, count), region)
    both = [GaussianLogDensity(replace(m, background=flat)) for m in (mixture, one)]
    noise = ground.allowance.multiplier("contest") * ground.cap_weight / count
    limit = float(np.clip(_CONTEST_NOISE / noise, *_LIMITS))
    query = ContestQuery(both[0], both[1], limit, ground.cap_weight)
    release = yield ground.stage(query, "contest")
    gain = float(release.statistics.total[0]) / count
    return gain > (mixture.n_parameters - one.n_parameters) / count


def copies(mean: Array, covariance: Array, k: int) -> Mixture:
    """One Gaussian as often as there are components; its covariance a matrix or a diagonal."""
    kind = "full" if covariance.ndim == 2 else "diag"
    return Mixture(kind, np.full(k, 1 / k), np.stack([mean] * k), np.stack([covariance] * k))


def as_type(state: Mixture, covariance_type: str) -> Mixture:
    """A start with full covariances, or diagonal ones, as a mixture of another covariance type."""
    c = state.covariances
    if state.covariance_type == "diag" and covariance_type == "spherical":
        return replace(state, covariance_type=covariance_type, covariances=c.mean(axis=1))
    if state.covariance_type != "full" or covariance_type == "full":
        return state
    match covariance_type:
        case "tied":
            c = c.mean(axis=0)
        case "diag":
            c = np.diagonal(c, axis1=1, axis2=2).copy()
        case _:
            c = np.trace(c, axis1=1, axis2=2) / c.shape[1]
    return replace(state, covariance_type=covariance_type, covariances=c)


def collapsed(mixture: Mixture) -> tuple[Array, Array]:
    """Mean and covariance of all that a mixture stands for; the latter a matrix or a diagonal."""
    weights, c = mixture.weights, mixture.covariances
    mean = weights @ mixture.means
    away = mixture.means - mean
    match mixture.covariance_type:
        case "full":
            within = np.einsum("k,kij->ij", weights, c)
        case "tied":
            within = c
        case "diag":
            return mean, weights @ (c + away**2)
        case _:
            return mean, weights @ (c[:, None] + away**2)
    return mean, within + np.einsum("k,ki,kj->ij", weights, away, away)


def groups_of(mixture: Mixture, components: int, lost: Sequence[int] = ()) -> Groups:
    """Which components to merge so that so many are left.

    Those that noise has swallowed are left out, if there are enough without them: they are copies
    of all records' Gaussian, and would blur what they are merged with. (Of a tied mixture, they are
    copies of its heaviest component.)

    Examples
    --------
    >>> means = np.array([[0.0], [9.0], [0.1]])
    >>> groups_of(Mixture("diag", np.full(3, 1 / 3), means, np.ones((3, 1))), 2)
    [[0, 2], [1]]
    """
    members = range(len(mixture.means))
    seen = [k for k in members if k not in lost or mixture.covariance_type == "tied"]
    return alike(
        seen if len(seen) >= components else members, components, lambda g: _part(mixture, g)
    )


def merged(mixture: Mixture, groups: Groups) -> Mixture:
    """Each group of components as one, of the mean and covariance of what they stand for.

    Examples
    --------
    >>> two = Mixture("diag", np.full(2, 0.5), np.array([[0.0], [2.0]]), np.ones((2, 1)))
    >>> one = merged(two, [[0, 1]])
    >>> one.means.tolist(), one.covariances.tolist()
    ([[1.0]], [[2.0]])
    """
    weights, kind = weights_of(mixture.weights, groups), mixture.covariance_type
    found = [collapsed(_some(mixture, group)) for group in groups]
    means, covariances = (np.stack([part[i] for part in found]) for i in (0, 1))
    if kind == "tied":  # pooled, by how many records each stands for
        covariances = np.einsum("k,kij->ij", weights, covariances)
    elif kind == "spherical":
        covariances = covariances.mean(axis=1)
    return replace(mixture, weights=weights, means=means, covariances=covariances)


def _some(mixture: Mixture, group: list[int]) -> Mixture:
    """The mixture of some of the components; their weights sum to one."""
    weights, c = mixture.weights[group], mixture.covariances
    return replace(
        mixture,
        weights=weights / weights.sum(),
        means=mixture.means[group],
        covariances=c if mixture.covariance_type == "tied" else c[group],
    )


def _part(mixture: Mixture, group: list[int]) -> float:
    """The weight of a group times its entropy: half the log-determinant of its covariance."""
    _, covariance = collapsed(_some(mixture, group))
    log = np.linalg.slogdet(covariance)[1] if covariance.ndim == 2 else np.log(covariance).sum()
    return float(mixture.weights[group].sum() * log / 2)


def replaced(state: Mixture, lost: NDArray[np.bool_], overall: Mixture, weight: float) -> Mixture:
    """Lost components become the one Gaussian of all records, with so much weight together.

    Those whom they stood for are too few to be seen, but may be far from all the others: without
    them, a few in a hundred records were impossible in the eyes of a few in a hundred fits.

    Parameters
    ----------
    state : Mixture
        Not tied.
    lost : ndarray of bool
    overall : Mixture
        Of one component and the same covariance type.
    weight : float
        What the noise could hide.
    """
    means, covariances = state.means.copy(), state.covariances.copy()
    means[lost], covariances[lost] = overall.means[0], overall.covariances[0]
    weights = state.weights
    if lost.any() and not lost.all():
        seen = np.where(lost, 0.0, weights)
        weights = np.where(lost, weight / lost.sum(), (1 - weight) * seen / seen.sum())
    return replace(state, weights=weights, means=means, covariances=covariances)


def with_copies(mixture: Mixture, covariance_type: str) -> Mixture:
    """The same density with covariances of the shape that was asked for."""
    if mixture.covariance_type == covariance_type:
        return mixture
    copies = np.stack([mixture.covariances] * len(mixture.means))
    return replace(mixture, covariance_type=covariance_type, covariances=copies)


def _scaled(mixture: Mixture, means: Array, factor: Array) -> Mixture:
    match mixture.covariance_type:
        case "full" | "tied":
            covariances = mixture.covariances * np.outer(factor, factor)
        case "diag":
            covariances = mixture.covariances * factor**2
        case _:
            covariances = mixture.covariances * factor[0] ** 2
    return replace(mixture, means=means, covariances=covariances)


def in_data(mixture: Mixture, region: Region) -> Mixture:
    """From unit coordinates to the data's."""
    return _scaled(mixture, region.to_data(mixture.means), region.scale)


def prior_in_unit(prior: Prior, region: Region) -> Prior:
    """A prior in unit coordinates."""
    scatter = prior.scatter / np.outer(region.scale, region.scale)
    return replace(prior, mean=(prior.mean - region.centre) / region.scale, scatter=scatter)


def to_unit(mixture: Mixture, region: Region) -> Mixture:
    """A mixture in unit coordinates, pulled into the region, deviations within public limits.

    A start that is off by more says nothing, and rounding would have no bound under it.
    """
    means = region.inside((mixture.means - region.centre) / region.scale)
    scaled = _scaled(mixture, means, 1.0 / region.scale)
    if mixture.covariance_type in ("diag", "spherical"):
        return replace(scaled, covariances=np.clip(scaled.covariances, _NARROWEST, _WIDEST))
    values, vectors = np.linalg.eigh(scaled.covariances)
    if values.min() >= _NARROWEST and values.max() <= _WIDEST:
        return scaled
    values = np.clip(values, _NARROWEST, _WIDEST)[..., None, :]
    return replace(scaled, covariances=(vectors * values) @ np.swapaxes(vectors, -1, -2))
