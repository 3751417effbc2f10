"""The estimators with targets, missing entries or categories, with data to fit them on."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from privem import (
    CategoricalMixture,
    MissingCovariateRegression,
    RegressionMixture,
    SymmetricMixture,
    SymmetricRegressionMixture,
)
from privem.federation import Federation, InProcess, Party

SLOPES = np.array([1.0, -2.0, 0.5])
WORDS = ["no", "yes"]


@cache
def data(name: str, n: int = 600) -> tuple[np.ndarray, ...]:
    """X, or X and y."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n, 3))
    noise, sign = rng.normal(size=n), rng.choice([-1.0, 1.0], n)
    match name:
        case "symmetric":
            return (sign[:, None] * SLOPES + rng.normal(size=(n, 3)),)
        case "symmetric regression":
            return X, sign * (X @ SLOPES) + 0.5 * noise
        case "missing":
            y = X @ SLOPES + 0.5 * noise
            return np.where(rng.random(X.shape) < 0.15, np.nan, X), y
        case "regressions":
            return X, np.where(rng.random(n) < 0.4, X @ SLOPES + 1, -(X @ SLOPES)) + 0.3 * noise
        case "classes":
            likes = np.where(rng.random((n, 1)) < 0.3, [0.9, 0.8, 0.9, 0.8], [0.1, 0.2, 0.3, 0.1])
            return (np.where(rng.random((n, 4)) < likes, "yes", "no"),)
    raise ValueError(name)


@dataclass(frozen=True)
class Case:
    """An estimator, the name of its data, its parameters."""

    estimator: type[Any]
    name: str
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [str(v) for v in self.parameters.values() if isinstance(v, str)]
        return "-".join([self.name, *words])

    def model(self, **more: Any) -> Any:
        given = dict(self.parameters)
        if self.name == "classes":
            given |= {"categories": WORDS, "random_state": 0}
        if self.name == "regressions":
            given |= {"random_state": 0}
        return self.estimator(**given, **more)

    def data(self, n: int = 600) -> tuple[np.ndarray, ...]:
        return data(self.name, n)

    def federate(
        self, index, protection="plain", *, n=600, party=None, transport=InProcess, **terms
    ):
        """Parties with the rows of each index."""
        more = {"categories": WORDS} if self.name == "classes" else {}
        more |= party or {}
        if self.name == "classes":
            terms.pop("bounds", None)
        parties = [
            Party(part[0], f"party {i}", *part[1:], **more)
            for i, rows in enumerate(index)
            for part in [tuple(array[rows] for array in self.data(n))]
        ]
        federation = Federation(parties, protection=protection, **terms)
        federation.transport = transport(parties)
        return federation


EXACT = [
    Case(SymmetricMixture, "symmetric"),
    Case(SymmetricRegressionMixture, "symmetric regression"),
    Case(MissingCovariateRegression, "missing"),
    Case(MissingCovariateRegression, "missing", {"method": "moments"}),
    Case(RegressionMixture, "regressions"),
    Case(CategoricalMixture, "classes"),
]
BOUNDS = {"bounds": 6.0, "target_bounds": 12.0}
PRIVATE = [
    Case(SymmetricMixture, "symmetric", {"bounds": 8.0}),
    Case(SymmetricMixture, "symmetric", {"method": "gradient", "batch": "partition", "n_iter": 3}),
    Case(SymmetricRegressionMixture, "symmetric regression", BOUNDS),
    Case(
        SymmetricRegressionMixture,
        "symmetric regression",
        {"method": "gradient", "mechanism": "robust", "n_iter": 3},
    ),
    Case(MissingCovariateRegression, "missing", {**BOUNDS, "n_iter": 3}),
    Case(MissingCovariateRegression, "missing", {"method": "moments"}),
    Case(
        MissingCovariateRegression,
        "missing",
        {**BOUNDS, "method": "gradient", "batch": "partition", "n_iter": 3},
    ),
    Case(RegressionMixture, "regressions", {**BOUNDS, "n_iter": 3}),
    Case(RegressionMixture, "regressions", {"n_iter": 3}),
    Case(CategoricalMixture, "classes", {"n_iter": 3}),
]


def cut(n, how):
    """Numbers of rows, cut into parties: every row is in exactly one of them."""
    rows = np.arange(n)
    match how:
        case "even":
            return [rows[i::4] for i in range(4)]
        case "one row each":
            return [rows[i : i + 1] for i in range(n)]
        case "one empty":
            return [rows[:0], *np.array_split(rows, 3)]
        case "unequal":
            return [rows[:1], rows[1:3], rows[3:]]
    raise ValueError(how)


def fitted(model):
    """What came out, as numbers."""
    names = ("mean_", "coef_", "intercept_", "weights_", "noise_variance_", "missing_probability_")
    names += ("lower_bound_", "n_iter_")
    found = {name: np.asarray(getattr(model, name)) for name in names if hasattr(model, name)}
    if hasattr(model, "category_probs_"):
        found["category_probs_"] = np.concatenate(model.category_probs_, axis=1)
    return found
