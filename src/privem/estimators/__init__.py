"""The scikit-learn face of the library."""

from .factor_analysis import FactorAnalysis
from .gaussian_mixture import GaussianMixture
from .kmeans import KMeans
from .store import ModelFileError, load

__all__ = ["FactorAnalysis", "GaussianMixture", "KMeans", "ModelFileError", "load"]
