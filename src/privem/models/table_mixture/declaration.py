"""What the model declares about itself."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, Example, ParameterTable


def _audit_case(s: Any) -> AuditCase:
    # A record and another that share no cell of any column, nor of the three tables of two. Cells
    # are what the values are, so that audits can ask queries about values.
    agreeing = s.columns(*[s.signs > 0] * 3).astype(float)
    return AuditCase(agreeing, [1.0] * 3, [0.0] * 3, {"schema": [0, 1]})


def _example() -> Example:
    import numpy as np

    rng, n = np.random.default_rng(11), 600
    sign = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    X = 2 * sign[:, None] * [1.0, -2.0, 0.5] + rng.normal(size=(n, 3))
    return Example((X,), {"n_components": 2, "schema": (-9.0, 9.0)}, {})


def _table(model: Any, of: Mapping[str, Any]) -> ParameterTable:
    names = model.schema_.names
    rows, labels = [], []
    for column, bins, probabilities in zip(names, model.bins_, of["marginals_"], strict=True):
        firsts = model.schema_.firsts(column).to_list()
        for number, probability in enumerate(probabilities):
            first = next(value for value, b in zip(firsts, bins, strict=True) if b == number)
            labels.append(f"{column}={'missing' if first is None else first}")
            rows.append([float(probability)])
    classes = len(model.weights_)
    return ParameterTable(
        f"Mixture of {classes} products",
        "Probability of each bin, called by its first value:",
        ["probability"],
        rows,
        labels,
    )


MODELS: tuple[Declaration, ...] = (
    Declaration(
        "TableMixture",
        "models.table_mixture.estimator",
        "table",
        "mixed tables: numbers, categories, flags, dates, gaps",
        count="n_components",
        schema=True,
        queries=tuple(
            f"models.table_mixture.{name}" for name in ("tables", "exact", "model", "log_density")
        ),
        audit_case=_audit_case,
        own_example=_example,
        results=("weights_", "marginals_"),
        table=_table,
    ),
)
