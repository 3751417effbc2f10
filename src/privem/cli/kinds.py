"""Models by the names they have at the command line, and what each needs to be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["COUNTED", "FACTS", "GRADIENT", "TARGETED", "Kind", "in_words", "kind_of"]


class Kind(StrEnum):
    """Models by their short names."""

    gmm = "gmm"
    kmeans = "kmeans"
    fa = "fa"
    symmetric = "symmetric"
    symmetric_regression = "symmetric-regression"
    missing_regression = "missing-regression"
    regression_mixture = "regression-mixture"
    categorical = "categorical"


@dataclass(frozen=True)
class Facts:
    """The class of a model; what it calls its number of components; whether it has a target."""

    name: str
    count: str | None
    target: bool = False

    @property
    def estimator(self) -> type[Any]:
        """The class itself, loaded when it is needed."""
        import privem

        return getattr(privem, self.name)  # type: ignore[no-any-return]


FACTS = {
    Kind.gmm: Facts("GaussianMixture", "n_components"),
    Kind.kmeans: Facts("KMeans", "n_clusters"),
    Kind.fa: Facts("FactorAnalysis", "n_components"),
    Kind.symmetric: Facts("SymmetricMixture", None),
    Kind.symmetric_regression: Facts("SymmetricRegressionMixture", None, target=True),
    Kind.missing_regression: Facts("MissingCovariateRegression", None, target=True),
    Kind.regression_mixture: Facts("RegressionMixture", "n_components", target=True),
    Kind.categorical: Facts("CategoricalMixture", "n_components"),
}
COUNTED = tuple(kind for kind in Kind if FACTS[kind].count is not None)
TARGETED = tuple(kind for kind in Kind if FACTS[kind].target)
# Those with a known or unknown noise variance, fitted by moments or gradients.
GRADIENT = (Kind.symmetric, Kind.symmetric_regression, Kind.missing_regression)


def kind_of(model: Any) -> Kind:
    """The short name of a fitted model."""
    return next(kind for kind, facts in FACTS.items() if type(model) is facts.estimator)


def in_words(kinds: Sequence[Kind]) -> str:
    """A list of names, as one says it.

    Examples
    --------
    >>> in_words([Kind.gmm, Kind.kmeans, Kind.fa])
    'gmm, kmeans and fa'
    """
    *most, last = kinds
    return f"{', '.join(most)} and {last}" if most else str(last)
