"""The fits that are kept as golden recordings: which estimator, on which generated data.

A case is plain data (it is written into its recording as JSON) and names nothing but public names.
"""

import tempfile
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import privem
from privem.federation import Federation, Party

N = 3000
NAMES = ["length", "width", "depth"]
WORDS = ["no", "yes", "maybe"]


@cache
def data(name: str) -> tuple[np.ndarray, ...]:
    """X, or X and y, by a fixed seed."""
    rng = np.random.default_rng(2024)
    X, noise, sign = rng.normal(size=(N, 3)), rng.normal(size=N), rng.choice([-1.0, 1.0], N)
    slopes = np.array([1.0, -2.0, 0.5])
    match name:
        case "clusters":
            centres = np.array([[0.0, 0.0, 0.0], [4.0, 4.0, -3.0], [-4.0, 3.0, 2.0]])
            label = rng.choice(3, N, p=[0.5, 0.3, 0.2])
            return (centres[label] + X * np.array([1.0, 0.6, 0.8]),)
        case "factors":
            return (noise[:, None] * slopes + 0.5 * X + 1.0,)
        case "symmetric":
            return (sign[:, None] * slopes + X,)
        case "signed slopes":
            return X, sign * (X @ slopes) + 0.5 * noise
        case "missing":
            return np.where(rng.random(X.shape) < 0.15, np.nan, X), X @ slopes + 0.5 * noise
        case "two slopes":
            first = rng.random(N) < 0.4
            return X, np.where(first, X @ slopes + 1.0, -(X @ slopes)) + 0.3 * noise
        case "answers":
            likes = np.where(rng.random((N, 1)) < 0.4, [0.8, 0.7, 0.9, 0.6], [0.1, 0.2, 0.2, 0.1])
            unsure = rng.random((N, 4)) < 0.1
            said = np.where(rng.random((N, 4)) < likes, "yes", "no")
            return (np.where(unsure, "maybe", said),)
        case "heavy tail":
            return (rng.standard_t(3, size=(N, 2)) + np.array([1.0, -2.0]),)
    raise ValueError(name)


@dataclass(frozen=True)
class Case:
    """One recorded fit, or call of ``private_mean``."""

    name: str
    estimator: str
    data: str
    parameters: dict[str, Any] = field(default_factory=dict)
    grouped: bool = False
    """Three records a person."""
    weighted: bool = False
    form: str = "array"
    """"array", "frame" or "csv"."""
    federation: dict[str, Any] | None = None
    """Arguments of a :class:`Federation` of three parties."""
    score: dict[str, Any] | None = None
    """Arguments of a ``private_score`` of the same records after the fit."""

    def about(self) -> dict[str, Any]:
        """How the fit was made, as plain data."""
        return asdict(self)

    def fit(self) -> tuple[Any, ...]:
        """The fitted estimator and the private score, or the private mean."""
        X, *rest = data(self.data)
        if self.estimator == "private_mean":
            groups = np.arange(N) // 3 if self.grouped else None
            return (privem.private_mean(X, groups=groups, **self.parameters),)
        model = getattr(privem, self.estimator)(**self.parameters)
        if self.federation is not None:
            given = {"categories": WORDS} if self.data == "answers" else {}
            if self.grouped:
                raise ValueError("no case has persons in a federation")
            parties = [
                Party(X[i::3], f"party {i}", *(part[i::3] for part in rest), **given)
                for i in range(3)
            ]
            return (model.fit(Federation(parties, **self.federation)),)
        with tempfile.TemporaryDirectory() as folder:
            model.fit(*self._given(X, *rest, folder=Path(folder)), **self._keywords())
        if self.score is None:
            return (model,)
        return model, model.private_score(X, **self.score)

    def _given(self, X: Any, *rest: Any, folder: Path) -> tuple[Any, ...]:
        if self.form == "array":
            return X, *rest
        frame = pl.DataFrame(dict(zip(NAMES, X.T, strict=True)))
        if self.grouped:
            frame = frame.with_columns(person=pl.Series(np.arange(N) // 3))
        if self.form == "frame":
            return (frame,)
        frame.write_csv(folder / "records.csv")
        return (folder / "records.csv",)

    def _keywords(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if self.grouped:
            given["groups"] = np.arange(N) // 3 if self.form == "array" else "person"
        if self.weighted:
            given["sample_weight"] = 0.5 + np.arange(N) % 4 / 2
        return given


def _gaussian(name: str, **more: Any) -> Case:
    return _case("GaussianMixture", "clusters", name, {"n_components": 3}, more)


def _case(
    estimator: str, generated: str, name: str, first: dict[str, Any], more: dict[str, Any]
) -> Case:
    """A case; what is no field of a case is a parameter of the estimator."""
    fields = ("grouped", "weighted", "form", "federation", "score")
    own = {key: more.pop(key) for key in fields if key in more}
    base = {} if estimator == "private_mean" else {"random_state": 7}
    parameters = base | {"n_jobs": 1} | first | more
    return Case(f"{estimator}-{name}", estimator, generated, parameters, **own)


BOX = {"bounds": [-9.0, 9.0], "epsilon": 4.0}
TARGET = {"bounds": 6.0, "target_bounds": 12.0, "epsilon": 4.0}
FOUND = {"epsilon": 4.0}
EXACT = {"epsilon": None}
PERSONS = {"grouped": True}
WEIGHTS = {"weighted": True, "max_weight": 2.0}
LOCAL = {"trust": "local", "n_iter": 3, "epsilon": 8.0}

MIXTURES = [
    _gaussian("full-box", covariance_type="full", **BOX),
    _gaussian("tied-box", covariance_type="tied", **BOX),
    _gaussian("diag-ball", covariance_type="diag", bounds=9.0, epsilon=4.0),
    *(
        _gaussian(mechanism, mechanism=mechanism, **BOX)
        for mechanism in ("joint", "ggg", "laplace")
    ),
    _gaussian("bounds-found", **FOUND),
    _gaussian("replace-one", **BOX, neighbours="replace-one"),
    _gaussian("persons-bounds-found", epsilon=8.0, **PERSONS),
    _gaussian("weights", **BOX, **WEIGHTS),
    _gaussian("csv", form="csv", **BOX),
    _gaussian("masked-parties", **BOX, federation={}),
    _gaussian("score", **BOX, score={"epsilon": 2.0}),
    _gaussian("exact-full", covariance_type="full", **EXACT),
    _gaussian("exact-plain-parties", **EXACT, federation={"protection": "plain"}),
]
CLUSTERS = [
    _case("KMeans", "clusters", name, {"n_clusters": 3}, more)
    for name, more in [
        ("whitened", BOX | {"mechanism": "whitened"}),
        ("dplloyd", BOX | {"mechanism": "dplloyd"}),
        ("exact", EXACT | {}),
    ]
]


def _factors(name: str, **more: Any) -> Case:
    return _case("FactorAnalysis", "factors", name, {"n_components": 1}, more)


def _answers(name: str, **more: Any) -> Case:
    return _case("CategoricalMixture", "answers", name, {"categories": WORDS}, more)


def _slopes(name: str, **more: Any) -> Case:
    return _case("RegressionMixture", "two slopes", name, {}, more)


def _symmetric(name: str, **more: Any) -> Case:
    return _case("SymmetricMixture", "symmetric", name, {}, more)


def _signed(name: str, **more: Any) -> Case:
    return _case("SymmetricRegressionMixture", "signed slopes", name, {}, more)


def _missing(name: str, **more: Any) -> Case:
    return _case("MissingCovariateRegression", "missing", name, {}, more)


def _mean(name: str, **more: Any) -> Case:
    return _case("private_mean", "heavy tail", name, {}, more)


GRADIENT = {"method": "gradient", "n_iter": 3}
LATENT = [
    _factors("box", **BOX),
    _factors("exact", **EXACT),
    _answers("default", **FOUND),
    _answers("local", **LOCAL),
    _answers("exact", **EXACT),
    _slopes("box", **TARGET),
    _slopes("local", **TARGET | LOCAL),
    _slopes("exact", **EXACT),
]
GRADIENTS = [
    _symmetric("ball", bounds=8.0, epsilon=4.0),
    _symmetric("gradient", bounds=8.0, epsilon=4.0, **GRADIENT),
    _symmetric("exact", **EXACT),
    _signed("ball", **TARGET),
    _signed("gradient-partition", **TARGET, **GRADIENT, batch="partition"),
    _missing("ball", **TARGET),
    _missing("moments", **TARGET, method="moments"),
    _missing("gradient-robust", **TARGET, **GRADIENT, mechanism="robust"),
    _missing("gradient-local", **TARGET | GRADIENT | LOCAL),
    _missing("exact", **EXACT),
]
MEANS = [
    _mean("found"),
    _mean("tau-persons", tau=9.0, **PERSONS),
    _mean("local", tau=9.0, trust="local"),
]
CASES = [*MIXTURES, *CLUSTERS, *LATENT, *GRADIENTS, *MEANS]
