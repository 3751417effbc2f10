"""What the model declares about itself."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, MadeUp, ParameterTable, Public, counted


def _figures(model: Any, weight: float | None) -> dict[str, Any]:
    found = {"background_weight": model.background_weight_} if model.background_weight_ else {}
    return found | ({} if weight is None else {"mean_log_likelihood": model.loglike_[-1] / weight})


def _table(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    factors = len(model.components_)
    return ParameterTable(
        f"Factor analysis, {counted(factors, 'factor')}",
        "Means, loadings and noise of each column:",
        model._names("x"),
        [of["mean_"], *of["components_"], of["noise_variance_"]],
        ["mean", *(f"factor {k}" for k in range(factors)), "noise var."],
    )


def _family(public: Public, rng: Any) -> MadeUp:
    from ...families import numbers

    # Factors move each column by half the separation, its own noise by a deviation of one.
    n, d, k = public.records, public.features, min(public.components, public.features)
    loadings = rng.standard_normal((k, d)) * public.separation / (2 * k**0.5)
    X = rng.standard_normal((n, k)) @ loadings + rng.standard_normal((n, d))
    return numbers(X, "mean_")


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "FactorAnalysis",
        "models.factor_analysis.estimator",
        "fa",
        "factor analysis",
        count="n_components",
        queries=("models.factor_analysis.query",),
        audit_case=lambda s: AuditCase(s.cluster, [1.0], [-1.0], {"n_components": 1}),
        own_family=_family,
        figures=_figures,
        table=_table,
    ),
)
