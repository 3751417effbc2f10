"""One person in the parameters (figure 1), and what Gamma and Wishart noise really promise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import beta

from privem import GaussianMixture

from . import printed

# Latitude and longitude. The paper simulated 104 people too, and prints no coordinates: three
# groups in the south-west of Germany, and one person in North Rhine-Westphalia.
GROUPS = {(48.5, 9.0): 55, (49.0, 8.4): 33, (47.8, 9.6): 15}
ALONE = np.array([51.5, 7.5])
ELSEWHERE = np.array([48.5, 9.0])
_SPREAD = 0.2
_BOUNDS = ([47.0, 5.0], [55.5, 15.5])  # Germany
EPSILON, NOMINAL, DELTA, ITERATIONS = 1.0, 0.9, 1e-4, 10
_SHARE = printed.cdp_share(NOMINAL, ITERATIONS, 2 * 4 + 1, 0, 1.0)
Row = dict[str, Any]


def people(times: int, alone: bool, seed: int) -> np.ndarray:
    """104 people, or so many times more; the last is the one in question, here or elsewhere."""
    rng = np.random.default_rng([1, times, seed])
    groups = [
        np.array(centre) + _SPREAD * rng.normal(size=(count * times, 2))
        for centre, count in GROUPS.items()
    ]
    others = ALONE + _SPREAD * rng.normal(size=(times - 1, 2))
    return np.concatenate([*groups, others, [ALONE if alone else ELSEWHERE]])


def parameters(times: int, alone: bool, repetition: int) -> list[Row]:
    """Means and deviations of four isotropic components, by EM, as printed, and by privem."""
    # One data set, as in the paper: only noise differs.
    X = people(times, alone, seed=0)
    start = np.array([*GROUPS, ALONE])
    rng = np.random.default_rng([2, times, alone, repetition])
    exact = GaussianMixture(
        4, covariance_type="spherical", epsilon=None, means_init=start, max_iter=ITERATIONS
    ).fit(X)
    private = GaussianMixture(
        4,
        covariance_type="spherical",
        epsilon=EPSILON,
        delta=DELTA,
        neighbours="replace-one",
        bounds=_BOUNDS,
        random_state=repetition,
    ).fit(X)
    centre = np.mean(_BOUNDS, axis=0)  # Public, where the paper's unit ball has its middle.
    told = printed.mixture(
        X - centre, 4, ITERATIONS, _SHARE, rng, "spherical", start=start - centre
    )
    deviation = np.sqrt(told.covariances[:, 0, 0])
    return [
        _row("exact EM", exact.means_, np.sqrt(_variances(exact)), exact.means_),
        _row("privem", private.means_, np.sqrt(_variances(private)), exact.means_),
        _row("as printed", told.means + centre, deviation, exact.means_),
    ]


def _variances(model: GaussianMixture) -> np.ndarray:
    found = np.asarray(model.covariances_)
    return found if found.ndim == 1 else np.array([np.trace(each) / 2 for each in found])


def _row(method: str, means: np.ndarray, deviations: np.ndarray, exact: np.ndarray) -> Row:
    """``distance``: degrees from the person to a mean; ``error``: from each exact mean to one."""
    away = np.linalg.norm(means - ALONE, axis=1)
    each = np.linalg.norm(means[:, None] - exact[None], axis=2).min(axis=0)
    return {
        "method": method,
        "means": means.round(4),
        "deviations": deviations.round(4),
        "distance": float(away.min()),
        "error": float(each.mean()),
    }


def advantage(here: np.ndarray, elsewhere: np.ndarray) -> float:
    """Of who guesses from a distance where the person is: true minus false alarms.

    Every other value chooses the threshold and the side, the rest is judged.
    """
    best, (limit, sign) = -1.0, (0.0, 1.0)
    for candidate in np.unique(np.concatenate([here[::2], elsewhere[::2]])):
        for side in (1.0, -1.0):
            gain = float(
                np.mean(side * here[::2] <= side * candidate)
                - np.mean(side * elsewhere[::2] <= side * candidate)
            )
            if gain > best:
                best, (limit, sign) = gain, (float(candidate), side)
    found = np.mean(sign * here[1::2] <= sign * limit)
    return float(found - np.mean(sign * elsewhere[1::2] <= sign * limit))


def impossible(kind: str, share: float, d: int, repetition: int, draws: int = 4000) -> Row:
    """How often an output is one that the neighbour could not have given.

    The printed noise on a statistic of 1,000 records of norm at most one, of which one, of norm
    one, becomes zero: what it adds to the variance, or to the covariance, is missing then. With the
    record, no output lies below the exact statistic; without it, so many do.
    """
    rng = np.random.default_rng([3, len(kind), round(share * 1e6), d, repetition])
    count = 1000.0
    if kind == "Gamma":
        # Without the record the exact variance is less by 1/(d N).
        below = printed.gamma(share, d, count, rng, draws) < 1 / (d * count)
    else:
        record = np.zeros((d, d))
        record[0, 0] = 1 / count
        noise = printed.wishart(share, d, count, rng, draws) - record
        below = np.linalg.eigvalsh(noise)[:, 0] < 0
    seen = int(below.sum())
    return {
        "delta": seen / draws,
        # With certainty 1 - 1e-6 delta is no smaller, whatever epsilon.
        "least": float(beta.ppf(1e-6, seen, draws - seen + 1)) if seen else 0.0,
        "formula": -math.expm1(-share),
    }
