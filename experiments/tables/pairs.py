"""A part of the pairs of many columns, chosen without a look at the data: is it better than all?

    python experiments/tables/pairs.py [--columns 100 200] [--rows 20000] [--epsilon 1]

Two kinds of made-up tables: columns that all depend on each other through ten kinds of records
(cost.py), and columns that depend in groups of five, side by side or in a random order. Each column
has a table with its neighbours in a circle. Printed: held-out log-likelihood per row, above private
independent columns; one fit each.
"""

from __future__ import annotations

import argparse
import warnings
from unittest import mock

import numpy as np
import polars as pl
from cost import wide

from privem import Schema, TableMixture
from privem.models.table_mixture import plan

HELD_OUT = 4000


def grouped(rows: int, columns: int, mixed: bool) -> tuple[Schema, pl.DataFrame]:
    """Columns of four categories that depend in groups of five, each with three kinds."""
    rng, law = np.random.default_rng(5), np.random.default_rng(7)
    laws = law.dirichlet(np.full(4, 0.5), size=(columns // 5, 5, 3)).cumsum(axis=3)
    codes = np.empty((rows, columns // 5 * 5), dtype=int)
    for group, of_group in enumerate(laws):
        kind = rng.integers(3, size=rows)
        for j, of_column in enumerate(of_group):
            code = (rng.random((rows, 1)) > of_column[kind]).sum(axis=1)
            codes[:, 5 * group + j] = code.clip(0, 3)
    if mixed:
        codes = codes[:, law.permutation(codes.shape[1])]
    made = {f"c{j}": np.array(list("abcd"))[codes[:, j]] for j in range(codes.shape[1])}
    return Schema({name: list("abcd") for name in made}), pl.DataFrame(made)


def neighbours(share: float, d: int) -> tuple[tuple[int, int], ...]:
    """Pairs of columns that are near each other in a circle; about that share of all."""
    near = max(1, int(share * d / 2))
    pairs = {tuple(sorted((i, (i + s) % d))) for i in range(d) for s in range(1, near + 1)}
    return tuple(sorted((i, j) for i, j in pairs))


def gain(schema: Schema, table: pl.DataFrame, share: float, epsilon: float) -> float:
    """Nats a row that a mixture with a part of the pairs gains over independent columns."""
    train, test = table[:-HELD_OUT], table[-HELD_OUT:]

    def fitted(**more: int) -> float:
        return float(TableMixture(schema=schema, epsilon=epsilon, **more).fit(train).score(test))

    chosen = plan.all_pairs if share == 1 else lambda d, target: neighbours(share, d)
    with mock.patch.object(plan, "all_pairs", chosen):
        return fitted() - fitted(n_components=1)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", nargs="+", type=int, default=[100, 200])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--shares", nargs="+", type=float, default=[1.0, 0.3, 0.1])
    told = parser.parse_args()
    for d in told.columns:
        n = told.rows + HELD_OUT
        tables = {
            "all depend": wide(n, d),
            "groups, side by side": grouped(n, d, mixed=False),
            "groups, in random order": grouped(n, d, mixed=True),
        }
        for name, (schema, table) in tables.items():
            gains = [gain(schema, table, share, told.epsilon) for share in told.shares]
            print(f"| {d} | {name} | {' | '.join(f'{g:.1f}' for g in gains)} |", flush=True)


if __name__ == "__main__":
    main()
