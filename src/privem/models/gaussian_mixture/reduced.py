"""A mixture with fewer components, made of one with more by merging those that are most alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...blocks.merging import Groups, alike, weights_of
from .model import Mixture
from .structure import collapsed


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
