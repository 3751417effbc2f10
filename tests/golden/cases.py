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


def _kmeans(name: str, **more: Any) -> Case:
    return _case("KMeans", "clusters", name, {"n_clusters": 3}, more)


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
REPLACE = {"neighbours": "replace-one"}
PLAIN = {"protection": "plain"}
EXACT = {"epsilon": None}
PERSONS = {"grouped": True}
WEIGHTS = {"weighted": True, "max_weight": 2.0}
LOCAL = {"trust": "local", "n_iter": 3, "epsilon": 8.0}
PURE = {"delta": 0.0, "epsilon": 8.0, "bounds": [-9.0, 9.0]}

_TYPES = ("full", "tied", "diag", "spherical")

MIXTURES = [
    *(_gaussian(f"{kind}-box", covariance_type=kind, **BOX) for kind in _TYPES),
    *(_gaussian(f"{kind}-ball", covariance_type=kind, bounds=9.0, epsilon=4.0) for kind in _TYPES),
    *(
        _gaussian(f"{mechanism}", mechanism=mechanism, **BOX)
        for mechanism in ("whitened", "joint", "ggg", "llg", "laplace")
    ),
    *(
        _gaussian(f"{mechanism}-{kind}", mechanism=mechanism, covariance_type=kind, **BOX)
        for mechanism, kind in [("joint", "tied"), ("ggg", "diag"), ("laplace", "spherical")]
    ),
    _gaussian("bounds-found", **FOUND),
    _gaussian("bounds-found-diag", covariance_type="diag", **FOUND),
    _gaussian("default-budget"),
    _gaussian("tiny-budget", bounds=9.0, epsilon=0.02),
    _gaussian("replace-one", **BOX, **REPLACE),
    _gaussian("persons", **BOX, **PERSONS),
    _gaussian("persons-bounds-found", **FOUND, **PERSONS),
    _gaussian("persons-replace-one", **BOX, **REPLACE, **PERSONS),
    _gaussian("weights", **BOX, **WEIGHTS),
    _gaussian("pure", **PURE, max_rows=9000),
    _gaussian("zcdp", **BOX, accountant="zcdp"),
    _gaussian("linear", **BOX, accountant="linear", n_iter=3),
    _gaussian("prior", **BOX, prior="map"),
    _gaussian(
        "given-start",
        **BOX,
        weights_init=[0.4, 0.3, 0.3],
        means_init=[[1.0, 0.0, 0.0], [3.0, 3.0, -3.0], [-3.0, 3.0, 3.0]],
        precisions_init=[np.eye(3).tolist()] * 3,
        n_iter=4,
    ),
    _gaussian("frame", form="frame", **FOUND, **PERSONS),
    _gaussian("csv", form="csv", **BOX),
    _gaussian("plain-parties", **BOX, federation=PLAIN),
    _gaussian("plain-parties-bounds-found", **FOUND, federation=PLAIN),
    _gaussian("masked-parties", **BOX, federation={}),
    _gaussian("score", **BOX, score={"epsilon": 2.0}),
    _gaussian("score-persons", **BOX, **PERSONS, score={"epsilon": 2.0, "floor": -30.0}),
    *(_gaussian(f"exact-{kind}", covariance_type=kind, **EXACT) for kind in _TYPES),
    _gaussian("exact-starts", n_init=3, init_params="k-means++", **EXACT),
    _gaussian("exact-prior", prior="map", **EXACT),
    _gaussian("exact-weights", **EXACT, weighted=True),
    _gaussian("exact-csv", **EXACT, form="csv"),
    _gaussian("exact-plain-parties", **EXACT, federation=PLAIN),
    _gaussian("exact-masked-parties", **EXACT, federation={"bounds": [-12, 12], "rows": 4000}),
]
CLUSTERS = [
    *(
        _kmeans(mechanism, mechanism=mechanism, **BOX)
        for mechanism in ("whitened", "joint", "gg", "ll", "dplloyd")
    ),
    _kmeans("ball", bounds=9.0, epsilon=4.0),
    _kmeans("bounds-found", **FOUND),
    _kmeans("replace-one", **BOX, **REPLACE),
    _kmeans("persons", **BOX, **PERSONS),
    _kmeans("weights", **BOX, **WEIGHTS),
    _kmeans("pure", **PURE, **REPLACE),
    _kmeans("tiny-budget", bounds=9.0, epsilon=0.02),
    _kmeans("given-start", **BOX, init=[[1.0, 0, 0], [3.0, 3, -3], [-3.0, 3, 3]]),
    _kmeans("plain-parties", **BOX, federation=PLAIN),
    _kmeans("exact", **EXACT),
    _kmeans("exact-starts", n_init=3, init="k-means++", **EXACT),
    _kmeans("exact-weights", **EXACT, weighted=True),
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
    _factors("joint", **BOX, mechanism="joint"),
    _factors("bounds-found", **FOUND),
    _factors("replace-one", bounds=9.0, epsilon=4.0, **REPLACE),
    _factors("persons", **BOX, **PERSONS),
    _factors("weights", **BOX, **WEIGHTS),
    _factors("rotated", n_components=2, rotation="varimax", **BOX),
    _factors("score", **BOX, score={"epsilon": 2.0}),
    _factors("plain-parties", **BOX, federation=PLAIN),
    _factors("exact", **EXACT),
    _factors("exact-em", **EXACT, update="em"),
    _answers("default", **FOUND),
    _answers("replace-one", **FOUND, **REPLACE),
    _answers("persons", **FOUND, **PERSONS),
    _answers("weights", **FOUND, **WEIGHTS),
    _answers("three", n_components=3, **FOUND),
    _answers("local", **LOCAL),
    _answers("plain-parties", **FOUND, federation=PLAIN),
    _answers("exact", **EXACT),
    _slopes("box", **TARGET),
    _slopes("bounds-found", **FOUND),
    _slopes("replace-one", **TARGET, **REPLACE),
    _slopes("persons", **TARGET, **PERSONS),
    _slopes("weights", **TARGET, **WEIGHTS),
    _slopes("tiny-budget", **TARGET | {"epsilon": 0.1}),
    _slopes("local", **TARGET | LOCAL),
    _slopes("plain-parties", **TARGET, federation=PLAIN),
    _slopes("exact", **EXACT),
]
GRADIENTS = [
    _symmetric("ball", bounds=8.0, epsilon=4.0),
    _symmetric("bounds-found", **FOUND),
    _symmetric("persons", bounds=8.0, epsilon=4.0, **PERSONS),
    _symmetric("weights", bounds=8.0, epsilon=4.0, **WEIGHTS),
    _symmetric("replace-one", bounds=8.0, epsilon=4.0, **REPLACE),
    _symmetric("local", bounds=8.0, **LOCAL),
    _symmetric("plain-parties", bounds=8.0, epsilon=4.0, federation=PLAIN),
    _symmetric("exact", **EXACT),
    _signed("ball", **TARGET),
    _signed("bounds-found", **FOUND),
    _signed("persons", **TARGET, **PERSONS),
    _signed("local", **TARGET | LOCAL),
    _signed("exact", **EXACT),
    _missing("ball", **TARGET),
    _missing("bounds-found", **FOUND),
    _missing("known", **TARGET, missing_probability=0.15, noise_variance=0.25),
    _missing("moments", **TARGET, method="moments"),
    _missing("moments-bounds-found", **FOUND, method="moments"),
    _missing("replace-one", **TARGET, **REPLACE),
    _missing("persons", **TARGET, **PERSONS),
    _missing("persons-moments", **TARGET, **PERSONS, method="moments"),
    _missing("weights", **TARGET, **WEIGHTS),
    _missing("local", **TARGET | LOCAL),
    _missing("plain-parties", **TARGET, federation=PLAIN),
    _missing("exact", **EXACT),
    _missing("exact-moments", **EXACT, method="moments"),
    *(
        make(name, **more | GRADIENT)
        for make, bounds in [
            (_symmetric, {"bounds": 8.0, "epsilon": 4.0}),
            (_signed, TARGET),
            (_missing, TARGET),
        ]
        for name, more in [
            ("gradient", bounds),
            ("gradient-robust", bounds | {"mechanism": "robust"}),
            ("gradient-partition", bounds | {"batch": "partition"}),
            ("gradient-found", FOUND | {"averaging": False}),
            ("gradient-local", bounds | LOCAL),
        ]
    ),
]
MEANS = [
    _mean("found"),
    _mean("tau", tau=9.0),
    _mean("tau-replace-one", tau=9.0, **REPLACE),
    _mean("tau-persons", tau=9.0, **PERSONS),
    _mean("theorem-2", tau=9.0, method="theorem 2"),
    _mean("lemma-1", tau=9.0, method="lemma 1"),
    _mean("pure", tau=9.0, delta=0.0, **REPLACE),
    _mean("local", tau=9.0, trust="local"),
]
CASES = [*MIXTURES, *CLUSTERS, *LATENT, *GRADIENTS, *MEANS]
