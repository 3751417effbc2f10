"""What the models declare about themselves."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, MadeUp, ParameterTable, Public


def _mean(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    title = "Symmetric mixture: b or -b, and noise"
    return ParameterTable(title, "The mean b:", model._names("x"), [of["mean_"]], ["b"])


def _coefficients(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    title = "Symmetric regression: <b, x> or -<b, x>, and noise"
    return ParameterTable(title, "The coefficients b:", model._names("x"), [of["coef_"]], ["b"])


def _audit_case(s: Any) -> AuditCase:
    # Mirrored records are the same to it; none of a cluster's is like the middle.
    mirrored = 0.3 * s.signs + 0.05 * s.shuffled
    return AuditCase(s.columns(mirrored), [1.0], [0.0])


def _regression_case(s: Any) -> AuditCase:
    line = 0.5 * s.spread + 0.05 * s.shuffled
    return AuditCase(s.columns(s.spread, line), [1.0, 1.0], [1.0, 0.0])


def _signs(public: Public, rng: Any) -> tuple[Any, Any]:
    """b, half the separation from the origin, and a sign for each record."""
    import numpy as np

    from ...families import apart

    (b,) = apart(1, public.features, public.separation, rng)
    return b, np.where(rng.random(public.records) < 0.5, 1.0, -1.0)


def _family(public: Public, rng: Any) -> MadeUp:
    from dataclasses import replace

    from ...families import numbers

    b, signs = _signs(public, rng)
    made = numbers(signs[:, None] * b + rng.standard_normal((public.records, public.features)))
    return replace(made, instead={**made.instead, "noise_variance": 1.0}, sizes={})


def _regression_family(public: Public, rng: Any) -> MadeUp:
    from ...families import explained

    b, signs = _signs(public, rng)
    X = rng.standard_normal((public.records, public.features))
    y = signs * (X @ b) + rng.standard_normal(public.records)
    return explained(X, y, noise_variance=1.0)


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "SymmetricMixture",
        "models.symmetric.estimator",
        "symmetric",
        "a row is b or -b, plus noise",
        queries=("models.symmetric.model", "models.symmetric.query"),
        audit_case=_audit_case,
        own_family=_family,
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
        own_family=_regression_family,
        table=_coefficients,
    ),
)
