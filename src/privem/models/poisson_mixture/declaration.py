"""What the model declares about itself."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, Example, ParameterTable


def _example() -> Example:
    import numpy as np

    rng = np.random.default_rng(11)
    low, high = rng.poisson([2.0, 1.0, 4.0], (400, 3)), rng.poisson([9.0, 6.0, 1.0], (200, 3))
    X = np.concatenate([low, high]).astype(float)
    return Example((X,), {"n_components": 2}, {"bounds": (0, 30)})


def _audit_case(s: Any) -> AuditCase:
    # Counts in the middle: the lowest and the highest are far from every rate that is found.
    return AuditCase(40 + 0 * s.cluster, [100.0], [0.0], {"bounds": (0, 100)})


def _table(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    return ParameterTable(
        f"Mixture of {model.n_components} Poisson distribution(s)",
        "Weight and rates of each component:",
        ["weight", *model._names()],
        [[weight, *rates] for weight, rates in zip(of["weights_"], of["rates_"], strict=True)],
    )


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "PoissonMixture",
        "models.poisson_mixture.estimator",
        "poisson",
        "groups of records in columns of counts",
        count="n_components",
        queries=("models.poisson_mixture.model",),
        own_example=_example,
        audit_case=_audit_case,
        table=_table,
    ),
)
