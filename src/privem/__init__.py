"""privem: Expectation Maximization without giving away the people in the data.

Importing it loads nothing else: names and submodules are loaded when first used (PEP 562), so that
the command line and programs that only mention privem start at once.
"""

from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
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
else:
    # Which module a name comes from; a submodule comes from itself.
    _HOMES = dict.fromkeys(__all__, "estimators") | {
        name: name
        for name in (
            "accounting",
            "audit",
            "core",
            "datasets",
            "estimators",
            "federation",
            "kernels",
            "linalg",
            "local",
            "meter",
            "models",
            "noise",
            "plans",
            "run",
            "sources",
            "statement",
            "tree",
        )
    }

    def __getattr__(name):
        """Load a public name, or a submodule, at its first use."""
        from importlib import import_module

        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = import_module(f".{_HOMES[name]}", __name__)
        # Kept, so that it is looked up once.
        value = globals()[name] = home if name == _HOMES[name] else getattr(home, name)
        return value

    def __dir__():
        """What there is, whether loaded or not."""
        return sorted({*globals(), *_HOMES})
