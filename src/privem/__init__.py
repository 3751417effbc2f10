"""privem: Expectation Maximization without giving away the people in the data.

Importing it loads nothing else: names and submodules are loaded when first used (PEP 562), so that
the command line and programs that only mention privem start at once.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from .estimator.score import private_scores as private_scores
    from .estimator.store import ModelFileError as ModelFileError
    from .estimator.store import load as load
    from .estimator.warnings import PrivacyCompositionWarning as PrivacyCompositionWarning
    from .ledger.budget import Budget as Budget
    from .ledger.budget import LedgerError as LedgerError
    from .ledger.ledger import Ledger as Ledger
    from .meter import BudgetExceeded as BudgetExceeded
    from .models.categorical_mixture.estimator import CategoricalMixture as CategoricalMixture
    from .models.factor_analysis.estimator import FactorAnalysis as FactorAnalysis
    from .models.gaussian_mixture.estimator import GaussianMixture as GaussianMixture
    from .models.kmeans.estimator import KMeans as KMeans
    from .models.mean.estimator import PrivateMean as PrivateMean
    from .models.mean.estimator import private_mean as private_mean
    from .models.missing_regression.estimator import (
        MissingCovariateRegression as MissingCovariateRegression,
    )
    from .models.poisson_mixture.estimator import PoissonMixture as PoissonMixture
    from .models.regression_mixture.estimator import RegressionMixture as RegressionMixture
    from .models.symmetric.estimator import SymmetricMixture as SymmetricMixture
    from .models.symmetric.estimator import (
        SymmetricRegressionMixture as SymmetricRegressionMixture,
    )
    from .models.table_mixture.estimator import TableMixture as TableMixture
    from .parameters import BoundsNotFound as BoundsNotFound
    from .planning.plan import plan as plan
    from .schema import Schema as Schema
    from .selection.select import select as select
else:
    # Where public names that are not models come from. Models are found in their folders.
    _HOMES = {
        "BoundsNotFound": "parameters",
        "Budget": "ledger.budget",
        "BudgetExceeded": "meter",
        "Ledger": "ledger.ledger",
        "LedgerError": "ledger.budget",
        "ModelFileError": "estimator.store",
        "PrivacyCompositionWarning": "estimator.warnings",
        "PrivateMean": "models.mean.estimator",
        "Schema": "schema",
        "load": "estimator.store",
        "plan": "planning.plan",
        "private_mean": "models.mean.estimator",
        "private_scores": "estimator.score",
        "select": "selection.select",
    }

    def _homes():
        """The module that each public name comes from."""
        from .declaration import declarations

        return _HOMES | {each.name: each.module for each in declarations()}

    def __getattr__(name):
        """Load a public name, or a submodule, at its first use."""
        from importlib import import_module
        from importlib.util import find_spec

        if name == "__all__":
            return sorted(_homes())
        if not name.startswith("_"):
            if find_spec(f"{__name__}.{name}") is not None:
                value = globals()[name] = import_module(f".{name}", __name__)
                return value
            home = _homes().get(name)
            if home is not None:
                # Kept, so that it is looked up once.
                value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        """What there is, whether loaded or not."""
        from pkgutil import iter_modules

        return sorted({*globals(), *_homes(), *(each.name for each in iter_modules(__path__))})
