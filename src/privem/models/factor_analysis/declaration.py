"""What the model declares about itself."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, ParameterTable


def _figures(model: Any, weight: float | None) -> dict[str, Any]:
    found = {"background_weight": model.background_weight_} if model.background_weight_ else {}
    return found | ({} if weight is None else {"mean_log_likelihood": model.loglike_[-1] / weight})


def _table(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    factors = len(model.components_)
    return ParameterTable(
        f"Factor analysis, {factors} factor(s)",
        "Means, loadings and noise of each column:",
        model._names(),
        [of["mean_"], *of["components_"], of["noise_variance_"]],
        ["mean", *(f"factor {k}" for k in range(factors)), "noise var."],
    )


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "FactorAnalysis",
        "models.factor_analysis.estimator",
        "fa",
        "factor analysis",
        count="n_components",
        queries=("models.factor_analysis.query",),
        audit_case=lambda s: AuditCase(s.cluster, [1.0], [-1.0], {"n_components": 1}),
        figures=_figures,
        table=_table,
    ),
)
