"""The scikit-learn face of the library."""

from .categorical_mixture import CategoricalMixture
from .factor_analysis import FactorAnalysis
from .gaussian_mixture import GaussianMixture
from .kmeans import KMeans
from .lineage import PrivacyCompositionWarning
from .mean import PrivateMean, private_mean
from .missing_regression import MissingCovariateRegression
from .regression_mixture import RegressionMixture
from .store import ModelFileError, load
from .symmetric_mixture import SymmetricMixture
from .symmetric_regression import SymmetricRegressionMixture

__all__ = [
    "CategoricalMixture",
    "FactorAnalysis",
    "GaussianMixture",
    "KMeans",
    "MissingCovariateRegression",
    "ModelFileError",
    "PrivacyCompositionWarning",
    "PrivateMean",
    "RegressionMixture",
    "SymmetricMixture",
    "SymmetricRegressionMixture",
    "load",
    "private_mean",
]
