"""Figure 3: k-means of places, at the printed budget and at the one that is really spent."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.cluster import KMeans as Exact

from privem import KMeans
from privem.datasets import load_gowalla

from . import printed
from .spending import cdp_epsilon

CLUSTERS, ROUNDS, DELTA = 5, 5, 1e-4
# One percent of the paper's 1,256,384 places.
RECORDS = 12_564
_C = printed.constant(0.001)
Row = dict[str, Any]


def nicv(X: np.ndarray, centres: np.ndarray) -> float:
    """Normalised intra-cluster variance: the mean squared distance to the nearest centre."""
    away = np.einsum("ij,ij->i", X, X)[:, None] - 2 * X @ centres.T
    return float((away + np.einsum("kj,kj->k", centres, centres)).min(axis=1).clip(0).mean())


def packing(k: int, d: int, seed: int) -> np.ndarray:
    """K spheres of equal size in the box, as large as random tries find them (Su et al. 2016)."""
    rng, radius = np.random.default_rng(seed), 1.0
    while True:
        found, missed = np.empty((0, d)), 0
        while len(found) < k and missed < 100:
            point = rng.uniform(radius - 1, 1 - radius, d)
            fits = bool((np.linalg.norm(found - point, axis=1) >= 2 * radius).all())
            found, missed = (np.vstack([found, point]), 0) if fits else (found, missed + 1)
        if len(found) == k:
            return found
        radius *= 0.9


def places() -> np.ndarray:
    """Latitudes and longitudes, scaled to the box [-1, 1]^2 by what everybody knows."""
    return load_gowalla() / [90.0, 180.0]


def clusters(nominal: float, repetition: int) -> list[Row]:
    """NICV of all methods on a part of the places, from the same centres, which read no data."""
    rng = np.random.default_rng([4, round(nominal * 1e6), repetition])
    X = np.random.default_rng([5, repetition]).permutation(places())[:RECORDS]
    start = packing(CLUSTERS, 2, repetition)
    lap = printed.cdp_share(nominal, ROUNDS, CLUSTERS + 1, 0, _C)
    gau = printed.cdp_share(nominal, ROUNDS, 1, CLUSTERS, _C)
    spent = cdp_epsilon(nominal, DELTA)
    found = {
        "exact": Exact(CLUSTERS, n_init=3, random_state=0).fit(X).cluster_centers_,
        "CDPlap as printed": printed.kmeans(X, start, ROUNDS, lap, rng),
        "CDPgau as printed": printed.kmeans(X, start, ROUNDS, gau, rng, _C),
        "DPLloyd as printed": printed.dplloyd(X, start, ROUNDS, 3 * ROUNDS / nominal, rng),
    }
    for epsilon, name in ((nominal, "nominal"), (spent, "spent")):
        budget: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": DELTA,
            "bounds": (-1.0, 1.0),
            "neighbours": "replace-one",
            "random_state": repetition,
        }
        given: dict[str, Any] = budget | {"init": start, "n_iter": ROUNDS}
        models = {
            "privem": KMeans(CLUSTERS, **budget),
            "CDPlap": KMeans(CLUSTERS, mechanism="ll", accountant="zcdp", **given),
            "CDPgau": KMeans(CLUSTERS, mechanism="gg", accountant="zcdp", **given),
            "DPLloyd linear": KMeans(CLUSTERS, mechanism="dplloyd", accountant="linear", **given),
            "DPLloyd zCDP": KMeans(CLUSTERS, mechanism="dplloyd", accountant="zcdp", **given),
        }
        found |= {f"{key}, {name}": m.fit(X).cluster_centers_ for key, m in models.items()}
    return [{"method": k, "spent": spent, "nicv": nicv(X, v)} for k, v in found.items()]
