"""What the model declares about itself."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, Example, MadeUp, ParameterTable, Public, counted


def _example() -> Example:
    import numpy as np

    rng = np.random.default_rng(11)
    low, high = rng.poisson([2.0, 1.0, 4.0], (400, 3)), rng.poisson([9.0, 6.0, 1.0], (200, 3))
    X = np.concatenate([low, high]).astype(float)
    return Example((X,), {"n_components": 2}, {"bounds": (0, 30)})


def _family(public: Public, rng: Any) -> MadeUp:
    import numpy as np

    from ...families import WIDE, apart, members

    # The square root of a count has a deviation of a half, whatever its rate.
    n, d, k = public.records, public.features, public.components
    roots = apart(k, d, public.separation / 2, rng)
    rates = (roots - roots.min() + 1.0) ** 2
    X = rng.poisson(rates[members(n, k, rng)]).astype(np.float64)
    most = np.maximum(np.ceil(WIDE * X.max(axis=0)), 1.0)
    bounds = (np.zeros(d), most)
    return MadeUp((X,), -float(np.log(most + 1).sum()), {}, {"bounds": bounds})


def _audit_case(s: Any) -> AuditCase:
    # Counts in the middle: the lowest and the highest are far from every rate that is found.
    return AuditCase(40 + 0 * s.cluster, [100.0], [0.0], {"bounds": (0, 100)})


def _table(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    return ParameterTable(
        f"Mixture of {counted(model.n_components, 'Poisson distribution')}",
        "Weight and rates of each component:",
        ["weight", *model._names("x")],
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
        own_family=_family,
        audit_case=_audit_case,
        table=_table,
    ),
)
