"""A mixture in other coordinates, of another covariance type, or as copies of one Gaussian.

A private fit works in unit coordinates of its region (:class:`privem.blocks.region.Region`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...blocks.region import Region
from ...tree import Array
from .m_step import Prior
from .model import Mixture

# Variances of a given start, in unit coordinates.
_NARROWEST, _WIDEST = 1e-12, 1e12


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
