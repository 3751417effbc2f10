"""What the model declares about itself."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, ParameterTable, counted


def _audit_case(s: Any) -> AuditCase:
    # Near the middle, so that both corners are far; in three columns, so that they are further from
    # a frame that noise keeps wide.
    columns = s.columns(*(s.normal[step * s.order % len(s.order)] for step in (3, 10, 17)))
    # Not "auto", which has the sense to fit one Gaussian to data this small.
    return AuditCase(-0.2 + 0.1 * columns, [1.0] * 3, [-1.0] * 3, {"mechanism": "whitened"})


def _figures(model: Any, weight: float | None) -> dict[str, Any]:
    found = {"covariance": model.covariance_type, "prior": model.prior}
    if model.background_weight_:
        found["background_weight"] = model.background_weight_
    if weight is None:
        return found
    what = "mean_log_likelihood" if model.prior is None else "mean_log_posterior"
    return found | {what: float(model.lower_bound_)}


def _table(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    return ParameterTable(
        f"Gaussian mixture, {counted(model.n_components, 'component')}, "
        f"{model.covariance_type} covariance",
        "Weight and mean of each component:",
        ["weight", *model._names("x")],
        [[weight, *mean] for weight, mean in zip(of["weights_"], of["means_"], strict=True)],
    )


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "GaussianMixture",
        "models.gaussian_mixture.estimator",
        "gmm",
        "a Gaussian mixture",
        count="n_components",
        queries=(
            "models.gaussian_mixture.density",
            "models.gaussian_mixture.model",
            "models.gaussian_mixture.query",
            "models.gaussian_mixture.frame",
        ),
        audit_case=_audit_case,
        results=("weights_", "means_", "covariances_", "background_weight_"),
        figures=_figures,
        table=_table,
    ),
)
