"""What the model declares about itself."""

from typing import Any

from ...declaration import AuditCase, Declaration


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
        "models.symmetric.mixture",
        "symmetric",
        queries=("models.symmetric.model",),
        audit_case=_audit_case,
    ),
    Declaration(
        "SymmetricRegressionMixture",
        "models.symmetric.regression",
        "symmetric-regression",
        target=True,
        queries=("models.symmetric.model",),
        audit_case=_regression_case,
    ),
)
