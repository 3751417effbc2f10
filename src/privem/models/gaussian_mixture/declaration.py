"""What the model declares about itself."""

from typing import Any

from ...declaration import AuditCase, Declaration


def _audit_case(s: Any) -> AuditCase:
    # Near the middle, so that both corners are far; in three columns, so that they are further from
    # a frame that noise keeps wide.
    columns = s.columns(*(s.normal[step * s.order % len(s.order)] for step in (3, 10, 17)))
    # Not "auto", which has the sense to fit one Gaussian to data this small.
    return AuditCase(-0.2 + 0.1 * columns, [1.0] * 3, [-1.0] * 3, {"mechanism": "whitened"})


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "GaussianMixture",
        "models.gaussian_mixture.estimator",
        "gmm",
        count="n_components",
        queries=(
            "models.gaussian_mixture.model",
            "models.gaussian_mixture.assigned",
            "models.gaussian_mixture.query",
        ),
        audit_case=_audit_case,
    ),
)
