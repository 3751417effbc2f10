"""privem: Expectation Maximization without giving away the people in the data."""

from .estimators import (
    CategoricalMixture,
    FactorAnalysis,
    GaussianMixture,
    KMeans,
    MissingCovariateRegression,
    ModelFileError,
    PrivateMean,
    RegressionMixture,
    SymmetricMixture,
    SymmetricRegressionMixture,
    load,
    private_mean,
)

__version__ = "0.1.0"

__all__ = [
    "CategoricalMixture",
    "FactorAnalysis",
    "GaussianMixture",
    "KMeans",
    "MissingCovariateRegression",
    "ModelFileError",
    "PrivateMean",
    "RegressionMixture",
    "SymmetricMixture",
    "SymmetricRegressionMixture",
    "load",
    "private_mean",
]
