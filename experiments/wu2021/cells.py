"""The work behind the claims. Data as in section 4 of Wu 2021.

Two Gaussians at theta and -theta, |theta| = 3, sigma = 1 (known); a random start of the same
length. Replacing a record, delta = 1e-5 (the paper computes delta afterwards). Errors are distances
up to the sign, which the model does not have.

Every method spends all of its budget on T iterations: a curve against T is many runs, and not one
run watched, which nobody could do in private.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from wang2023 import printed as wang

from privem import SymmetricMixture

from . import printed

DELTA, SNR = 1e-5, 3.0
STEPS = (1, 2, 3, 5, 7, 10, 15)
CLIPS = (0.5, 1.0, 2.0, 3.0, 5.0)


def draw(n: int, d: int, repetition: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Records, the truth and a start."""
    rng = np.random.default_rng([2021, n, d, repetition])
    theta, start = (SNR * v / np.linalg.norm(v) for v in rng.normal(size=(2, d)))
    signs = rng.choice([-1.0, 1.0], n)
    return signs[:, None] * theta + rng.normal(size=(n, d)), theta, start


def tau_of(X: np.ndarray, start: np.ndarray) -> float:
    """The bound on second moments that the paper takes for known: an oracle reads it off."""
    return float(np.max(np.mean(printed.gradients(X, start) ** 2, axis=0)))


def error(found: np.ndarray, theta: np.ndarray) -> float:
    """Distance up to the sign."""
    return float(min(np.linalg.norm(found - theta), np.linalg.norm(found + theta)))


def private(d: int, epsilon: float, **more: Any) -> SymmetricMixture:
    """An estimator within the budget; records lie within a wide public radius."""
    budget = {"epsilon": epsilon, "delta": DELTA, "neighbours": "replace-one"}
    bounds = 10 + 2 * math.sqrt(d)
    return SymmetricMixture(**budget, bounds=bounds, noise_variance=1.0, **more)


def thresholds(n: int, d: int, epsilon: float, repetition: int) -> list[dict[str, Any]]:
    """Clipped gradient EM, for every threshold and number of iterations."""
    X, theta, start = draw(n, d, repetition)
    given = {"init": start, "method": "gradient", "averaging": False}
    rows = []
    for clip in CLIPS:
        for steps in STEPS:
            model = private(d, epsilon, **given, clip=clip, n_iter=steps).fit(X)
            rows.append({"clip": clip, "steps": steps, "error": error(model.mean_, theta)})
    return rows


def errors(n: int, d: int, epsilon: float, repetition: int) -> list[dict[str, Any]]:
    """Every method, for every number of iterations; the default of privem chooses its own."""
    X, theta, start = draw(n, d, repetition)
    tau, rng = tau_of(X, start), np.random.default_rng([repetition])
    default = private(d, epsilon).fit(X).mean_
    rows = []
    for steps in STEPS:
        exact = {"noise_variance": 1.0, "init": start, "max_iter": steps, "tol": 0.0}
        given = {"init": start, "method": "gradient", "averaging": False, "n_iter": steps}
        settings = printed.Settings(n, d, epsilon, DELTA, steps, tau)
        integers, lattice = printed.integer_noise(settings), printed.lattice_noise(settings)
        ends = {
            "exact EM": SymmetricMixture(epsilon=None, **exact).fit(X).mean_,
            "clipped": private(d, epsilon, **given, clip=2.0).fit(X).mean_,
            "repaired": private(d, epsilon, **given, mechanism="robust", tau=tau).fit(X).mean_,
            "as printed": printed.dg_em(X, start, settings, integers, rng),
            "lattice": printed.dg_em(X, start, settings, lattice, rng),
            "privem": default,
            "algorithm 2": algorithm_2(X, start, settings, repetition),
        }
        rows += [{"method": k, "steps": steps, "error": error(v, theta)} for k, v in ends.items()]
    return rows


def algorithm_2(
    X: np.ndarray, start: np.ndarray, settings: printed.Settings, repetition: int
) -> np.ndarray:
    """That of Wang et al. 2023 as printed, given the same tau and failure probability."""

    def each(rows: Any, theta: np.ndarray) -> np.ndarray:
        return printed.gradients(X[rows], theta)

    rng = np.random.default_rng([2, settings.steps, repetition])
    known = (settings.tau, settings.steps, settings.epsilon, DELTA, printed.GAMMA)
    return wang.robust(each, len(X), start, *known, rng)[-1]


def attack(n: int, d: int, epsilon: float, steps: int, repetition: int) -> list[dict[str, Any]]:
    """The first of so many releases, as printed and on a lattice, and what it shows of a record."""
    X, theta, start = draw(n, d, repetition)
    settings = printed.Settings(n, d, epsilon, DELTA, steps, tau_of(X, start))
    rng, target = np.random.default_rng([repetition]), X[0]
    another = rng.normal(size=d) - theta  # the one that might stand in its place
    means = [
        settings.robust(np.vstack([one, X[1:]]), start).mean(axis=0) for one in (target, another)
    ]
    rows = []
    for method, noise in (
        ("as printed", printed.integer_noise(settings)),
        ("lattice", printed.lattice_noise(settings)),
    ):
        released = noise(means[0], rng)
        found = printed.record_read_off(released, X[1:], start, settings)
        # Which of the two was it? The one that leaves whole numbers, or the smaller noise.
        left = [released - mean for mean in means]
        if method == "as printed":
            left = [each - np.rint(each) for each in left]
        rows.append(
            {
                "method": method,
                "deviation": float(np.sqrt(settings.variance)),
                "error": error(found, target) / float(np.linalg.norm(target)),
                "right": float(np.linalg.norm(left[0]) < np.linalg.norm(left[1])),
            }
        )
    return rows


def noises(n: int, d: int, epsilon: float, steps: int, repetition: int) -> dict[str, float]:
    """The same gradient EM with discrete and with continuous noise of the same size."""
    X, theta, start = draw(n, d, repetition)
    settings = printed.Settings(n, d, epsilon, DELTA, steps, tau_of(X, start))
    rng = np.random.default_rng([repetition])
    kinds = {"discrete": printed.lattice_noise, "continuous": printed.continuous_noise}
    return {
        name: error(printed.dg_em(X, start, settings, kind(settings), rng), theta)
        for name, kind in kinds.items()
    }
