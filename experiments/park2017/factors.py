"""Figure 5: factors of faces."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from privem import FactorAnalysis
from privem.accounting import Gaussian, epsilon

from . import printed
from .data import faces

FACTORS, DELTA = 10, 1e-4
Array = np.ndarray
Row = dict[str, Any]


def _directions(components: Array) -> Array:
    """Orthonormal directions of the factors that are not zero."""
    _, size, right = np.linalg.svd(components, full_matrices=False)
    return right[size > 1e-9 * max(size[0], 1e-300)] if size[0] > 0 else right[:0]


def _shown(components: Array, count: int = 6) -> list[list[int]]:
    """Pixels of the first factors as bytes, each in its own range about zero."""
    most = np.maximum(np.abs(components[:count]).max(axis=1, keepdims=True), 1e-300)
    return [[int(v) for v in row] for row in np.round(127.5 + 127.5 * components[:count] / most)]


def _exact(X: Array) -> Array:
    """The leading directions of the second moment, which EM without noise finds."""
    Y = X / np.linalg.norm(X, axis=1).max()
    return np.linalg.svd(Y, full_matrices=False)[2][:FACTORS]


def exact_faces() -> Row:
    """The top row."""
    return {"method": "exact EM", "found": 1.0, "shown": _shown(_exact(faces(64)))}


def printed_faces(epsilon: float, repetition: int) -> Row:
    """One of the other rows: as the paper describes it, all 400 images."""
    X = faces(64)
    rng = np.random.default_rng([5, round(epsilon * 1e6), repetition])
    components = printed.factors(X, FACTORS, epsilon, DELTA, rng)
    span, reference = _directions(components), _exact(X)
    found = float(np.sum((span @ reference.T) ** 2) / FACTORS)
    shown = _shown(components) if repetition == 0 else None
    return {"method": "as printed", "found": found, "shown": shown}


def needed(factor: int) -> Row:
    """What it costs to see a factor, by the exact accounting of Gaussian noise.

    An eigenvector of eigenvalue v under symmetric noise of deviation s keeps the squared cosine
    1 - d s^2 / v^2 with itself (none below zero): at one half, s = v / sqrt(2 d).
    """
    X = faces(64)
    Y = X / np.linalg.norm(X, axis=1).max()
    # The n x n matrix of products has the same eigenvalues above zero as the d x d one.
    value = float(np.linalg.eigvalsh(Y @ Y.T / len(Y))[-factor])
    noise = value / math.sqrt(2 * X.shape[1]) * len(X) / math.sqrt(2)
    # Off-diagonal noise counts twice in the Frobenius norm: svec noise has sqrt 2 of it.
    return {"eigenvalue": value, "epsilon needed": epsilon(Gaussian(math.sqrt(2) * noise), DELTA)}


def sizes(side: int, repetition: int) -> list[Row]:
    """Private factors of smaller images, held-out log-likelihood per pixel, and what was found."""
    X = faces(side)
    order = np.random.default_rng([6, repetition]).permutation(len(X))
    test, train = np.split(X[order], [len(X) // 10])
    share = FACTORS / test.shape[1]
    grey = -0.5 * (np.log(2 * np.pi / 12) + np.mean((test - 0.5) ** 2) * 12)
    rows: list[Row] = [{"method": "no data", "score": float(grey), "found": share}]
    reference = np.empty((0, 0))
    for spent in (None, 0.3, 1.0, 10.0, 100.0):
        model = FactorAnalysis(
            FACTORS,
            epsilon=spent,
            delta=DELTA,
            bounds=(0.0, 1.0),
            neighbours="replace-one",
            tol=1e-4 * train.size,
            max_iter=60,
        ).fit(train)
        span = _directions(model.components_)
        reference = span if spent is None else reference
        row = {
            "method": "exact" if spent is None else "privem",
            "epsilon": spent,
            "score": float(model.score(test)) / test.shape[1],
            "found": float(np.sum((span @ reference.T) ** 2) / len(reference)),
        }
        rows.append(row)
    return rows
