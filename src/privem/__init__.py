"""privem: Expectation Maximization without giving away the people in the data."""

from .estimators import FactorAnalysis, GaussianMixture, KMeans, ModelFileError, load

__version__ = "0.1.0"

__all__ = ["FactorAnalysis", "GaussianMixture", "KMeans", "ModelFileError", "load"]
