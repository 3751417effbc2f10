"""What the model declares about itself."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, Example, MadeUp, ParameterTable, Public


def _audit_case(s: Any) -> AuditCase:
    import numpy as np

    seen = np.where(s.order % 5 == 2, np.nan, s.spread)
    line = 0.5 * s.spread + 0.05 * s.shuffled
    return AuditCase(s.columns(seen, line), [1.0, -1.0], [1.0, 1.0])


def _example() -> Example:
    import numpy as np

    rng = np.random.default_rng(11)
    X = rng.normal(size=(600, 3))
    y = X @ [1.0, -2.0, 0.5] + 0.5 * rng.normal(size=600)
    X[rng.random(X.shape) < 0.15] = np.nan
    return Example((X, y), {}, {"bounds": 6.0, "target_bounds": 12.0})


def _family(public: Public, rng: Any) -> MadeUp:
    import numpy as np

    from ...families import apart, explained

    # A line that explains half the separation, and noise of deviation one; a field in ten is empty.
    n, d = public.records, public.features
    (slopes,), X = apart(1, d, public.separation, rng), rng.standard_normal((n, d))
    made = explained(X, X @ slopes + rng.standard_normal(n), missing_probability=0.1)
    X[rng.random(X.shape) < 0.1] = np.nan
    return made


def _table(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    title = "Regression on columns with missing values"
    return ParameterTable(title, "The coefficients b:", model._names("x"), [of["coef_"]], ["b"])


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "MissingCovariateRegression",
        "models.missing_regression.estimator",
        "missing-regression",
        "the target is <b, x> plus noise; fields of x may be empty",
        target=True,
        queries=("models.missing_regression.model", "models.missing_regression.query"),
        audit_case=_audit_case,
        own_example=_example,
        own_family=_family,
        results=("coef_", "noise_variance_", "missing_probability_"),
        table=_table,
    ),
)
