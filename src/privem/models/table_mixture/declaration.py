"""What the model declares about itself."""

from collections.abc import Mapping
from typing import Any

from ...declaration import AuditCase, Declaration, Example, MadeUp, ParameterTable, Public


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


def _family(public: Public, rng: Any) -> MadeUp:
    import numpy as np
    from scipy.special import logsumexp, ndtr

    from ...families import apart, members
    from ...schema import Schema

    given = public.arguments.get("schema")
    if given is None:
        given = {f"x{j}": (0.0, 1.0) for j in range(public.features)}
    schema = given if isinstance(given, Schema) else Schema.of(given)
    listed = {
        name: [f"{j}" for j in range(public.categories)] for name in schema.without_categories
    }
    schema = schema.with_categories(listed)
    complete = schema.with_bounds(dict.fromkeys(schema.without_bounds, (0.0, 100.0)))
    # Groups along each column, from its first cell to its last.
    n, d, k = public.records, len(complete.columns), public.components
    centres, label = apart(k, d, public.separation, rng), members(n, k, rng)
    sizes = np.array([column.size for column in complete.columns])
    low, high = centres.min(axis=0) - 3, centres.max(axis=0) + 3
    part = (centres[label] + rng.standard_normal((n, d)) - low) / (high - low)
    cells = np.clip(np.floor(part * sizes), 0, sizes - 1).astype(np.int64)
    # Of each record: how likely its cells are in each group, and in all of them.
    shares, likely = np.bincount(label, minlength=k) / n, np.zeros((k, n))
    for j, size in enumerate(sizes):
        edges = low[j] + (high[j] - low[j]) * np.arange(1, size) / size
        reached = np.pad(
            ndtr(edges - centres[:, j : j + 1]), ((0, 0), (1, 1)), constant_values=(0, 1)
        )
        likely += np.log(np.maximum(np.diff(reached), 1e-300))[:, cells[:, j]]
    exact = float(logsumexp(likely + np.log(shares)[:, None], axis=0).mean())
    alone = -float(np.log(sizes).sum())
    return MadeUp((complete.decode(cells, rng),), alone, {"schema": schema}, exact=exact)


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
        own_family=_family,
        rehearsed=50_000,  # few passes, and many cells
        rehearsals=1,  # each takes seconds
        results=("weights_", "marginals_"),
        table=_table,
    ),
)
