"""What the model declares about itself."""

from ...declaration import AuditCase, Declaration

MODELS: tuple[Declaration, ...] = (
    Declaration(
        "FactorAnalysis",
        "models.factor_analysis.estimator",
        "fa",
        count="n_components",
        audit_case=lambda s: AuditCase(s.cluster, [1.0], [-1.0], {"n_components": 1}),
    ),
)
