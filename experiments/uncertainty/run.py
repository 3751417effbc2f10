"""How often two standard errors of a private fit hold what the fit would be without its noise.

    python experiments/uncertainty/run.py [--fits 40] [--only NAME ...] [--check]

``model.uncertainty()`` promises what noise does to the answers of a fit, the questions being given:
bounds, start, and whose record is whose in each iteration. Three figures say how good that is:

- *given*: how often two standard errors hold the same fit with the same questions, answered
  exactly. This is what they are of, and it should be 95 times in 100.
- *all*: how often they hold the same plan without any noise, from the same start, components being
  matched. Here noise may also change what is asked, up to another optimum.
- *spread*: by how much fits of the same records differ from each other, over their standard errors;
  the median parameter.

The first two are computed from the data, without noise: NOT private, and only here. A number whose
standard error is zero (noise did not reach it) is left out. ``--check``: exit with 1 unless every
model is held at least 85 times in 100, the questions being given.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

import privem
from privem.core import Release, Source, Stage
from privem.estimator.warnings import at_end
from privem.fit import fund
from privem.linalg import map_leaves
from privem.noise.exact import Exact
from privem.run import run

EPSILONS = (0.3, 1.0, 4.0)
N, D, LEAST = 5000, 4, 0.85
_RNG = np.random.default_rng(7)


def _groups() -> np.ndarray:
    centres = np.array([[5.0, 0.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0], [-2.0, -2.0, 4.0, 0.0]])
    return centres[_RNG.choice(3, N, p=[0.5, 0.3, 0.2])]


def _answers() -> np.ndarray:
    yes = np.where(_RNG.random(N)[:, None] < 0.4, [0.9, 0.8, 0.9, 0.7], [0.1, 0.3, 0.2, 0.4])
    return np.where(_RNG.random((N, D)) < yes, "yes", "no")


def _targets(sign: np.ndarray | float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    X = _RNG.normal(size=(N, D))
    return X, sign * (X @ [1.0, -2.0, 0.5, 0.0]) + 0.5 * _RNG.normal(size=N)


def _missing() -> tuple[np.ndarray, np.ndarray]:
    X, y = _targets()
    X[_RNG.random(X.shape) < 0.15] = np.nan
    return X, y


_MIXED = _groups() + _RNG.normal(size=(N, D)) @ np.diag([0.7, 1.0, 1.0, 1.5])
_LATENT = _RNG.normal(size=(N, 2)) @ _RNG.normal(size=(2, D)) + _RNG.normal(size=(N, D))
_SIGNS = _RNG.choice([-1.0, 1.0], N)
_COUNTS = _RNG.poisson(np.where(_SIGNS[:, None] > 0, [2, 1, 4, 9], [9, 6, 1, 8])).astype(float)
_BOUNDS, _BOTH = {"bounds": 15.0}, {"bounds": 6.0, "target_bounds": 12.0}

# A name; the estimator, without its epsilon; the data; the attribute that tells components apart.
CASES: dict[str, tuple[Callable[..., Any], dict[str, Any], tuple[Any, ...], str | None]] = {
    "GaussianMixture, one": (privem.GaussianMixture, _BOUNDS, (_LATENT,), None),
    "GaussianMixture, full": (
        privem.GaussianMixture,
        {"n_components": 3, **_BOUNDS},
        (_MIXED,),
        "means_",
    ),
    "GaussianMixture, diag": (
        privem.GaussianMixture,
        {"n_components": 3, "covariance_type": "diag", **_BOUNDS},
        (_MIXED,),
        "means_",
    ),
    "KMeans": (privem.KMeans, {"n_clusters": 3, **_BOUNDS}, (_MIXED,), "cluster_centers_"),
    "FactorAnalysis": (privem.FactorAnalysis, {"n_components": 1, **_BOUNDS}, (_LATENT,), None),
    "CategoricalMixture": (
        privem.CategoricalMixture,
        {"n_components": 2, "categories": ["no", "yes"]},
        (_answers(),),
        "category_probs_",
    ),
    "PoissonMixture": (
        privem.PoissonMixture,
        {"n_components": 2, "bounds": (0, 40)},
        (_COUNTS,),
        "rates_",
    ),
    "RegressionMixture": (
        privem.RegressionMixture,
        {"n_components": 2, **_BOTH},
        _targets(_SIGNS),
        "coef_",
    ),
    "MissingCovariateRegression": (privem.MissingCovariateRegression, _BOTH, _missing(), None),
    "SymmetricMixture": (
        privem.SymmetricMixture,
        _BOUNDS,
        (_SIGNS[:, None] * [2.0, 1.0, 0.0, 1.0] + _RNG.normal(size=(N, D)),),
        None,
    ),
    "SymmetricRegressionMixture": (
        privem.SymmetricRegressionMixture,
        _BOTH,
        _targets(_SIGNS),
        None,
    ),
}


@dataclass(frozen=True)
class WithoutNoise:
    """A source whose releases have no noise, and say so: next to none. NOT private."""

    source: Source

    def release(self, stage: Stage) -> Release[Any]:
        """The exact sums."""
        return self.exactly(self.source.release(stage))

    def exactly(self, release: Release[Any]) -> Release[Any]:
        """The sums that a release would have been without its noise."""
        sums = self.source.release(Stage(release.query, Exact())).statistics
        next_to_none = map_leaves(lambda deviation: 1e-6 * deviation, release.deviation)
        return Release(release.query, sums, next_to_none, release.spent)


def copied(model: Any) -> Any:
    """Another model with the same attributes."""
    other = object.__new__(type(model))
    vars(other).update(vars(model))
    return other


def given(model: Any, played: Any, source: WithoutNoise) -> Any:
    """The same fit, without the noise of its last releases."""
    other = copied(model)
    with np.errstate(all="ignore"), at_end(), played.tape.playing(source.exactly) as answers:
        other._set_again(run(played.plan, answers))
    return other


def none(model: Any, table: Any, source: WithoutNoise) -> Any:
    """The same plan, without any noise."""
    other, terms = copied(model), model._terms()
    funded, _ = fund(model._private_plan(table, terms), terms)
    with np.errstate(all="ignore"), at_end():
        other._set_private(run(funded, source))
    return other


def parameters(model: Any) -> dict[str, Any]:
    """Released parameters, without those that are others once more.

    And without the background's weight, which is chosen larger for noise.
    """
    names = model._released or model._needed
    left_out = ("precisions_", "precisions_cholesky_", "background_weight_")
    return {name: getattr(model, name) for name in names if name not in left_out}


def parts(value: Any) -> list[np.ndarray]:
    """An attribute as a list of arrays."""
    return [np.asarray(part) for part in (value if isinstance(value, list) else [value])]


def turned(found: dict[str, Any], order: Any, sign: float = 1.0) -> np.ndarray:
    """All numbers in one row, components in this order, and vectors with this sign."""
    all_ = [sign * part[order] if part.ndim else part for v in found.values() for part in parts(v)]
    return np.concatenate([np.ravel(part) for part in all_])


def order(mine: dict[str, Any], theirs: dict[str, Any], told: str | None) -> Any:
    """Which component of one fit is which of another."""
    if told is None:
        return slice(None)
    one, other = (
        np.concatenate([np.reshape(part, (len(part), -1)) for part in parts(of[told])], axis=1)
        for of in (mine, theirs)
    )
    return linear_sum_assignment(np.sum((one[:, None] - other) ** 2, axis=2))[1]


def alike(mine: dict[str, Any], theirs: dict[str, Any], told: str | None) -> tuple[Any, float]:
    """The order, and the sign: b and -b are the same symmetric model."""
    which = order(mine, theirs, told)
    name = next(iter(mine))
    mirrored = told is None and name in ("mean_", "coef_")
    return which, -1.0 if mirrored and float(np.sum(mine[name] * theirs[name])) < 0 else 1.0


def measured(name: str, epsilon: float, fits: int) -> tuple[float, float, float]:
    """Of one case: both coverages, and the spread of fits over their standard errors."""
    make, arguments, data, told = CASES[name]
    hits: tuple[list[bool], list[bool]] = ([], [])
    values, noise, first = [], [], None
    for _ in range(fits):
        model = make(**arguments, epsilon=epsilon, random_state=0).fit(*data)
        played, found = model._played, parameters(model)
        errors = {key: e for key, e in model.uncertainty().items() if key in found}
        table, whole = model._open_table(*data), slice(None)
        source = WithoutNoise(table.source(None))
        mine, error = turned(found, whole), turned(errors, whole)
        same = parameters(given(model, played, source))
        other = parameters(none(model, table, source))
        for held, true in (
            (hits[0], turned(same, whole)),
            (hits[1], turned(other, *alike(found, other, told))),
        ):
            held.extend((np.abs(mine - true) <= 2 * error)[error > 0].tolist())
        first = first or found
        which, sign = alike(first, found, told)
        values.append(turned(found, which, sign))
        noise.append(turned(errors, which))
    typical = np.sqrt(np.mean(np.square(noise), axis=0))
    ratio = np.std(values, axis=0, ddof=1)[typical > 0] / typical[typical > 0]
    return float(np.mean(hits[0])), float(np.mean(hits[1])), float(np.median(ratio))


def main() -> int:
    """Print a table; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fits", type=int, default=40)
    parser.add_argument("--only", nargs="*", default=list(CASES), metavar="NAME")
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"| model | {' | '.join(f'epsilon {e:g}: given, all, spread' for e in EPSILONS)} |")
    print(f"|---|{'---|' * len(EPSILONS)}")
    least = 1.0
    for name in asked.only:
        found = [measured(name, epsilon, asked.fits) for epsilon in EPSILONS]
        cells = (f"{a:.2f}, {b:.2f}, {c:.1f}" for a, b, c in found)
        print(f"| {name} | {' | '.join(cells)} |", flush=True)
        least = min(least, *(held for held, _, _ in found))
    if asked.check and least < LEAST:
        print(f"below {LEAST}: {least:.3f}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
