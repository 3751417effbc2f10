"""Figures 2 and 4: held-out log-likelihood of mixtures, against records and against epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np

from privem import GaussianMixture
from privem.datasets import load_life_sciences

from . import printed
from .clusters import packing
from .spending import cdp_epsilon, laplace_epsilon

COMPONENTS, ITERATIONS = 3, 10
RELEASES = ITERATIONS * (2 * COMPONENTS + 1)
# Figure 2: "epsilon = 0.9", delta = 0.01 of advanced composition.
NOMINAL, DELTA = 0.9, 0.01
SPENT = cdp_epsilon(NOMINAL, DELTA)
CDP = printed.cdp_share(NOMINAL, ITERATIONS, 2 * COMPONENTS + 1, 0, 1.0)
ADVANCED = printed.advanced_share(NOMINAL, DELTA, RELEASES)
ADVANCED_SPENT = laplace_epsilon(ADVANCED, RELEASES, DELTA)
# Figure 4: Gaussian noise on means at delta' = 0.001; advanced composition at delta' = 0.01. What
# is really spent is told at one delta.
LIFE_DELTA, _LIFE_C = 1e-4, printed.constant(0.001)
_RADIUS = 14.41  # of the compounds' ten components; public
Row = dict[str, Any]


def three(n: int, rng: np.random.Generator) -> np.ndarray:
    """Three isotropic Gaussians in the plane, inside the unit ball."""
    means = np.array([[0.5, 0.0], [-0.3, 0.4], [-0.2, -0.4]])
    labels = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    return means[labels] + 0.12 * rng.normal(size=(n, 2))


def records(n: int, repetition: int) -> list[Row]:
    """All methods on n records of three Gaussians; a tenth as many are held out."""
    rng = np.random.default_rng([6, n, repetition])
    X, test = three(n, rng), three(max(n // 10, 1000), rng)
    # The same for all but our default, and without reading data.
    start = 0.6 * packing(COMPONENTS, 2, repetition)

    def ours(epsilon: float, **more: Any) -> float:
        model = GaussianMixture(
            COMPONENTS,
            covariance_type="spherical",
            epsilon=epsilon,
            delta=DELTA,
            neighbours="replace-one",
            bounds=1.0,
            random_state=repetition,
            **more,
        )
        return float(model.fit(X).score(test))

    def told(share: float) -> float:
        found = printed.mixture(X, COMPONENTS, ITERATIONS, share, rng, "spherical", start=start)
        return found.score(test)

    exact = GaussianMixture(COMPONENTS, covariance_type="spherical", epsilon=None, means_init=start)
    laplace: dict[str, Any] = {
        "mechanism": "laplace",
        "n_iter": ITERATIONS,
        "means_init": start,
        "weights_init": np.full(COMPONENTS, 1 / COMPONENTS),
        "precisions_init": np.full(COMPONENTS, 1 / 0.1),
    }
    found = {
        "exact EM": float(exact.fit(X).score(test)),
        "CDP as printed": told(CDP),
        "advanced as printed": told(ADVANCED),
        "CDP repaired": ours(NOMINAL, accountant="zcdp", **laplace),
        "advanced repaired": ours(NOMINAL, accountant="advanced-classical", **laplace),
        "CDP repaired, spent": ours(SPENT, accountant="zcdp", **laplace),
        "privem": ours(NOMINAL),
    }
    return [{"method": name, "score": score} for name, score in found.items()]


def split(repetition: int) -> tuple[np.ndarray, np.ndarray]:
    """Nine tenths of the compounds, and one."""
    X = np.random.default_rng([7, repetition]).permutation(load_life_sciences() / _RADIUS)
    test, train = np.split(X, [len(X) // 10])
    return train, test


def life(nominal: float, repetition: int) -> list[Row]:
    """All methods on the compounds, full covariances."""
    train, test = split(repetition)
    rng = np.random.default_rng([8, round(nominal * 1e6), repetition])
    spent = cdp_epsilon(nominal, LIFE_DELTA)

    def ours(epsilon: float, **more: Any) -> float:
        model = GaussianMixture(
            COMPONENTS,
            epsilon=epsilon,
            delta=LIFE_DELTA,
            neighbours="replace-one",
            bounds=1.0,
            random_state=repetition,
            **more,
        )
        return float(model.fit(train).score(test))

    def told(share: float) -> float:
        fitted = printed.mixture(train, COMPONENTS, ITERATIONS, share, rng, "full", _LIFE_C)
        return fitted.score(test)

    exact = GaussianMixture(
        COMPONENTS, epsilon=None, init_params="k-means++", random_state=repetition
    )
    cdp = printed.cdp_share(nominal, ITERATIONS, COMPONENTS + 1, COMPONENTS, _LIFE_C)
    ggg: dict[str, Any] = {"mechanism": "ggg", "prior": "map", "n_iter": ITERATIONS}
    found = {
        "exact EM": float(exact.fit(train).score(test)),
        "single Gaussian": float(GaussianMixture(1, epsilon=None).fit(train).score(test)),
        "CDP as printed": told(cdp),
        "advanced as printed": told(printed.advanced_share(nominal, 0.01, RELEASES)),
        "CDP repaired": ours(nominal, accountant="zcdp", **ggg),
        "advanced repaired": ours(nominal, accountant="advanced-classical", **ggg),
        "privem": ours(nominal),
        "CDP repaired, spent": ours(spent, accountant="zcdp", **ggg),
        "privem, spent": ours(spent),
    }
    return [{"method": name, "spent": spent, "score": score} for name, score in found.items()]
