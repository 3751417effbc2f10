"""Models with data to fit them on, but for those that scikit-learn has too (test_exact.py)."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from privem.declaration import Declaration, declarations, declared
from privem.federation import Federation, InProcess, Party

WORDS = ["no", "yes"]


def columns_of(declared: Declaration) -> dict[str, Any]:
    """What a party says of its columns."""
    if declared.schema:
        return {"schema": declared.example().arguments["schema"]}
    return {"categories": WORDS} if declared.categories else {}


@dataclass(frozen=True)
class Case:
    """A model and more of its parameters."""

    declared: Declaration
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = [str(v) for v in self.parameters.values() if isinstance(v, str)]
        return "-".join([self.declared.name, *words])

    def model(self, **more: Any) -> Any:
        given = {"random_state": 0, **self.declared.example().arguments, **self.parameters}
        return self.declared.estimator(**{**given, **more})

    def data(self, n: int = 600) -> tuple[np.ndarray, ...]:
        return tuple(part[:n] for part in self.declared.example().data)

    def federate(
        self, index, protection="plain", *, n=600, party=None, transport=InProcess, **terms
    ):
        """Parties with the rows of each index."""
        more = columns_of(self.declared) | (party or {})
        if self.declared.categories or self.declared.schema:
            terms.pop("bounds", None)
        parties = [
            Party(part[0], f"party {i}", *part[1:], **more)
            for i, rows in enumerate(index)
            for part in [tuple(array[rows] for array in self.data(n))]
        ]
        federation = Federation(parties, protection=protection, **terms)
        federation.transport = transport(parties)
        return federation


ELSEWHERE = ("FactorAnalysis", "GaussianMixture", "KMeans")
CASES = {each.name: Case(each) for each in declarations() if each.name not in ELSEWHERE}
MISSING = declared("MissingCovariateRegression")
EXACT = [*CASES.values(), Case(MISSING, {"method": "moments"})]
GRADIENT = {"method": "gradient", "n_iter": 3}


def _bounded(name: str, **parameters: Any) -> Case:
    """A private fit between public bounds, as so few records show none."""
    return Case(declared(name), {**declared(name).example().bounds, **parameters})


PRIVATE = [
    # A model with a schema is fitted to two releases: it has no iterations.
    *(
        _bounded(name, **{} if case.declared.schema else {"n_iter": 3})
        for name, case in CASES.items()
    ),
    _bounded("SymmetricMixture", **GRADIENT, batch="partition"),
    _bounded("SymmetricRegressionMixture", **GRADIENT, mechanism="robust"),
    _bounded("MissingCovariateRegression", method="moments"),
    _bounded("MissingCovariateRegression", **GRADIENT, batch="partition"),
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
