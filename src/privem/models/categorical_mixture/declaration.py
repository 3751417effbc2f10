"""What the model declares about itself."""

from typing import Any

from ...declaration import AuditCase, Declaration


def _audit_case(s: Any) -> AuditCase:
    # Two columns that always agree: classes nobody can doubt.
    agreeing = s.columns(s.signs > 0, s.signs > 0).astype(float)
    return AuditCase(agreeing, [1.0, 1.0], [0.0, 0.0], {"categories": [0, 1]})


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "CategoricalMixture",
        "models.categorical_mixture.estimator",
        "categorical",
        count="n_components",
        categories=True,
        queries=("models.categorical_mixture.model",),
        audit_case=_audit_case,
    ),
)
