"""What the model declares about itself."""

from typing import Any

from ...declaration import AuditCase, Declaration


def _audit_case(s: Any) -> AuditCase:
    flat = s.columns(s.cluster[:, 0], 0.05 * s.shuffled)
    return AuditCase(flat, [1.0, 1.0], [1.0, -1.0])


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "RegressionMixture",
        "models.regression_mixture.estimator",
        "regression-mixture",
        count="n_components",
        target=True,
        queries=("models.regression_mixture.model", "models.regression_mixture.directions"),
        audit_case=_audit_case,
    ),
)
