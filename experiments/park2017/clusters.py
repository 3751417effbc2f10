"""Figure 4, and k-means by every method that can be run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans as Exact

from privem import KMeans

from . import printed
from .data import clustered, gowalla

DELTA, ROUNDS, K = 1e-4, 5, 5
# Places of the paper, of which we have a twelfth.
PAPER = 1_256_384
LLOYD = {
    "DPLloyd linear, packed": ("linear", True),
    "DPLloyd linear, private start": ("linear", False),
    "DPLloyd zCDP, packed": ("zcdp", True),
    "DPLloyd zCDP, private start": ("zcdp", False),
}
# The papers' own, repaired: Laplace noise (CDPlap of 2016, theirs of 2017) and Gaussian (CDPgau).
PARK = {"Park et al., Laplace, packed": "ll", "Park et al., Gaussian, packed": "gg"}
Array = np.ndarray
Row = dict[str, Any]


def nicv(X: Array, centres: Array) -> float:
    """Mean squared distance to the nearest centre; differences, in blocks."""
    total = 0.0
    for block in np.array_split(X, max(1, len(X) // 4096)):
        away = block[:, None] - centres[None]
        total += float(np.einsum("nkj,nkj->nk", away, away).min(axis=1).sum())
    return total / len(X)


def packing(k: int, d: int, seed: int) -> Array:
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


def places(whole: bool, repetition: int) -> tuple[Array, Array]:
    """Nine tenths, and one; ``whole``: drawn again and moved by a degree or less, as many as the
    paper has."""
    X, rng = gowalla(), np.random.default_rng([3, repetition])
    if whole:
        X = X[rng.integers(len(X), size=PAPER)]
        X = np.clip(X + rng.normal(scale=0.003, size=X.shape), -1, 1)
    order = rng.permutation(len(X))
    test, train = np.split(X[order], [len(X) // 10])
    return train, test


def figure_4(epsilon: float, whole: bool, repetition: int) -> list[Row]:
    """NICV on held-out places, from the same centres, which read no data."""
    train, test = places(whole, repetition)
    rng = np.random.default_rng([4, round(epsilon * 1e6), whole, repetition])
    start = packing(K, 2, repetition)
    rho = (math.sqrt(math.log(1 / DELTA) + epsilon) - math.sqrt(math.log(1 / DELTA))) ** 2
    # epsilon of each Laplace release: J of DPLloyd, J (K + 1) of the paper's.
    lloyd, each = math.sqrt(2 * rho / ROUNDS), math.sqrt(2 * rho / (ROUNDS * (K + 1)))
    linear, ball = 3 * ROUNDS / epsilon, math.sqrt(2)
    # Replaced: 2 in the counts, 2 sqrt(2) in a cluster's sum, of a ball of radius one.
    theirs = (2 / each, 2 * math.sqrt(2) / each)
    found = {
        "exact": Exact(K, n_init=3, random_state=0).fit(train).cluster_centers_,
        "DPLloyd linear, printed": printed.kmeans(train, start, ROUNDS, linear, linear, rng),
        "DPLloyd zCDP, printed": printed.kmeans(train, start, ROUNDS, 3 / lloyd, 3 / lloyd, rng),
        "theirs, printed": ball * printed.kmeans(train / ball, start / ball, ROUNDS, *theirs, rng),
    }
    budget: Row = {
        "epsilon": epsilon,
        "delta": DELTA,
        "bounds": (-1.0, 1.0),
        "neighbours": "replace-one",
        "random_state": repetition,
    }
    given: Row = {**budget, "init": start, "n_iter": ROUNDS}
    models = {
        "DPLloyd linear": KMeans(K, mechanism="dplloyd", accountant="linear", **given),
        "DPLloyd zCDP": KMeans(K, mechanism="dplloyd", accountant="zcdp", **given),
        "theirs": KMeans(K, mechanism="ll", accountant="zcdp", **given),
        "privem": KMeans(K, **budget),
    }
    found |= {name: model.fit(train).cluster_centers_ for name, model in models.items()}
    return [{"method": name, "nicv": nicv(test, centres)} for name, centres in found.items()]


def figure_4_longer(epsilon: float, rounds: int, repetition: int) -> list[Row]:
    """The printed methods with more iterations, on as many places as the paper has."""
    train, test = places(True, repetition)
    rng = np.random.default_rng([5, round(epsilon * 1e6), rounds, repetition])
    start, ball = packing(K, 2, repetition), math.sqrt(2)
    rho = (math.sqrt(math.log(1 / DELTA) + epsilon) - math.sqrt(math.log(1 / DELTA))) ** 2
    lloyd, each = math.sqrt(2 * rho / rounds), math.sqrt(2 * rho / (rounds * (K + 1)))
    scales = {
        "DPLloyd linear, printed": (1.0, 3 * rounds / epsilon, 3 * rounds / epsilon),
        "DPLloyd zCDP, printed": (1.0, 3 / lloyd, 3 / lloyd),
        "theirs, printed": (ball, 2 / each, 2 * math.sqrt(2) / each),
    }
    found = []
    for method, (size, counts, sums) in scales.items():
        centres = size * printed.kmeans(train / size, start / size, rounds, counts, sums, rng)
        found.append({"method": method, "nicv": nicv(test, centres)})
    return found


def best(data: str) -> Row:
    """scikit-learn, without privacy."""
    X, k = clustered(data)
    starts = 10 if k < 50 else 2
    centres = Exact(k, n_init=starts, random_state=0).fit(X).cluster_centers_
    return {"method": "scikit-learn", "nicv": nicv(X, centres)}


def rivals(data: str, epsilon: float, repetition: int) -> list[Row]:
    """The default, DPLloyd, and the papers', add-remove, on all records, as diffprivlib_run.py."""
    X, k = clustered(data)
    budget: Row = {
        "epsilon": epsilon,
        "delta": DELTA,
        "neighbours": "add-remove",
        "bounds": (-1.0, 1.0),
        "random_state": repetition,
    }
    models = {"privem": KMeans(k, **budget)}
    packed_start: Row = {"init": packing(k, X.shape[1], repetition)}
    for name, (accountant, packed) in LLOYD.items():
        start = packed_start if packed else {}
        models[name] = KMeans(
            k, mechanism="dplloyd", accountant=accountant, n_iter=ROUNDS, **start, **budget
        )
    for name, mechanism in PARK.items():
        models[name] = KMeans(
            k, mechanism=mechanism, accountant="zcdp", n_iter=ROUNDS, **packed_start, **budget
        )
    found = []
    for name, model in models.items():
        centres = model.fit(X).cluster_centers_
        found.append({"method": name, "nicv": nicv(X, centres), "spent": model.spent_})
    return found


def diffprivlib(data: str, epsilon: float) -> list[Row]:
    """What diffprivlib_run.py found, in an environment of its own."""
    kept = json.loads(Path(__file__).with_name("diffprivlib.json").read_text("utf-8"))
    found = kept["found"].get(data, {}).get(f"{epsilon:g}", [])
    return [
        {"method": "diffprivlib", "repetition": i, "nicv": value} for i, value in enumerate(found)
    ]
