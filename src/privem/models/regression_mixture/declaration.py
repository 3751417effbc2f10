"""What the model declares about itself."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, ParameterTable, counted


def _audit_case(s: Any) -> AuditCase:
    flat = s.columns(s.cluster[:, 0], 0.05 * s.shuffled)
    return AuditCase(flat, [1.0, 1.0], [1.0, -1.0])


def _table(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    parts = [of[name] for name in ("weights_", "noise_variance_", "intercept_", "coef_")]
    return ParameterTable(
        f"Mixture of {counted(model.n_components, 'linear regression')}",
        "Weight, noise, intercept and coefficients of each component:",
        ["weight", "noise var.", "intercept", *model._names("x")],
        [[weight, noise, start, *coef] for weight, noise, start, coef in zip(*parts, strict=True)],
    )


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "RegressionMixture",
        "models.regression_mixture.estimator",
        "regression-mixture",
        "the target follows one of K lines",
        count="n_components",
        target=True,
        queries=("models.regression_mixture.model", "models.regression_mixture.directions"),
        audit_case=_audit_case,
        table=_table,
    ),
)
