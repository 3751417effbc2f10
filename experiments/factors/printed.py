"""The private factor analysis of Park et al. 2017 as printed, for comparison. NOT what privem does.

Not private as it stands: images are scaled by the data's own largest norm, and the noise is in
floating point. Both are in the paper's favour.
"""

from __future__ import annotations

import math
from itertools import islice

import numpy as np

from privem.accounting import Gaussian, epsilon
from privem.models.factor_analysis.model import eigen_updates, initial_factors

# One image replaced moves the mean of x x', |x| <= 1, by at most sqrt(2)/n in Frobenius norm.
_REACH = math.sqrt(2)
_ITERATIONS = 5


def _scaled(X: np.ndarray) -> np.ndarray:
    return np.asarray(X / np.linalg.norm(X, axis=1).max())


def _second_moment(X: np.ndarray) -> np.ndarray:
    return _scaled(X).T @ _scaled(X) / len(X)


def _released(second: np.ndarray, deviation: float, rng: np.random.Generator) -> np.ndarray:
    """Analyze Gauss: the same noise above and below the diagonal; then no eigenvalue below zero."""
    noise = np.triu(rng.normal(scale=deviation, size=second.shape))
    noise += np.triu(noise, 1).T
    values, vectors = np.linalg.eigh(second + noise)
    return np.asarray((vectors * np.maximum(values, 1e-9)) @ vectors.T)


def _loadings(second: np.ndarray, q: int) -> np.ndarray:
    start = initial_factors(second, q, np.full(len(second), np.trace(second) / len(second)))
    *_, last = islice(eigen_updates(second, start), _ITERATIONS)
    return last.components


def figure_5(
    X: np.ndarray, config: dict
) -> tuple[dict[str, dict[str, float]], list[tuple[str, np.ndarray]]]:
    """The three rows of Figure 5 (no centring, so the first factor is the mean face)."""
    second, q, rng = _second_moment(X), config["factors"], np.random.default_rng(0)
    shown = [("exact", _loadings(second, q))]
    reference = np.linalg.svd(shown[0][1], full_matrices=False)[2]
    found = {}
    for budget in config["paper_epsilons"]:
        deviation = math.sqrt(2 * math.log(1.25 / config["delta"])) * _REACH / len(X) / budget
        loadings = _loadings(_released(second, deviation, rng), q)
        span = np.linalg.svd(loadings, full_matrices=False)[2]
        shown.append((f"epsilon {budget:g}", loadings))
        found[f"epsilon {budget:g}"] = {
            "noise norm": 2 * deviation * math.sqrt(len(second)),
            "found": float(np.sum((span @ reference.T) ** 2) / q),
        }
    return found, shown


def needed_epsilons(X: np.ndarray, config: dict) -> dict[str, dict[str, float]]:
    """What noise that lets factor k through costs, by the exact accounting of Gaussian noise.

    An eigenvector of eigenvalue v under symmetric noise of deviation s keeps the squared cosine
    1 - d s^2 / v^2 with itself (none below zero): at one half, s = v / sqrt(2 d).
    """
    # The n x n matrix of products has the same eigenvalues above zero as the d x d one.
    values = np.linalg.eigvalsh(_scaled(X) @ _scaled(X).T / len(X))[::-1]
    found = {}
    for k in (1, 2, config["factors"]):
        deviation = values[k - 1] / math.sqrt(2 * X.shape[1])
        multiplier = float(deviation * len(X) / _REACH)
        # Off-diagonal noise counts twice in the Frobenius norm: svec noise has sqrt 2 of it.
        found[f"factor {k}"] = {
            "eigenvalue": float(values[k - 1]),
            "epsilon needed": epsilon(Gaussian(math.sqrt(2) * multiplier), config["delta"]),
        }
    return found
