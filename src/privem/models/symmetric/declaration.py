"""What the models declare about themselves."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, ParameterTable


def _mean(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    title = "Symmetric mixture: b or -b, and noise"
    return ParameterTable(title, "The mean b:", model._names(), [of["mean_"]], ["b"])


def _coefficients(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    title = "Symmetric regression: <b, x> or -<b, x>, and noise"
    return ParameterTable(title, "The coefficients b:", model._names(), [of["coef_"]], ["b"])


def _audit_case(s: Any) -> AuditCase:
    # Mirrored records are the same to it; none of a cluster's is like the middle.
    mirrored = 0.3 * s.signs + 0.05 * s.shuffled
    return AuditCase(s.columns(mirrored), [1.0], [0.0])


def _regression_case(s: Any) -> AuditCase:
    line = 0.5 * s.spread + 0.05 * s.shuffled
    return AuditCase(s.columns(s.spread, line), [1.0, 1.0], [1.0, 0.0])


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "SymmetricMixture",
        "models.symmetric.estimator",
        "symmetric",
        "a row is b or -b, plus noise",
        queries=("models.symmetric.model", "models.symmetric.query"),
        audit_case=_audit_case,
        table=_mean,
    ),
    Declaration(
        "SymmetricRegressionMixture",
        "models.symmetric.estimator",
        "symmetric-regression",
        "the target is <b, x> or -<b, x>, plus noise",
        target=True,
        queries=("models.symmetric.model", "models.symmetric.query"),
        audit_case=_regression_case,
        table=_coefficients,
    ),
)
