"""How good a synthetic table is: against what was released, or against public test data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Block, Release, Scratch
from ..data import Policy, open_table
from ..data.mixed import open_columns
from ..linalg import Array
from ..models.table_mixture.picture import Shares, draw_tables
from ..models.table_mixture.tables import TablesQuery
from ..schema import Schema
from .fit import as_table

# The mean size of noise of deviation one.
_MEAN_SIZE = math.sqrt(2 / math.pi)
# Tables that are named; and values of a target that trees can be trained for.
_WORST, _MOST_VALUES = 5, 20


@dataclass(frozen=True)
class Quality:
    """Distances (total variation) between a synthetic table and noisy releases."""

    columns: dict[str, dict[str, float]]
    pairs: dict[str, Any] | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        found = asdict(self)
        return found if self.pairs is not None else {"columns": found["columns"]}


def compared(model: Any, releases: Mapping[str, Release[Any]], output: Path) -> Quality:
    """A synthetic table against the releases of the fit: nothing else of the data is used."""
    cells, count = _cells(model.schema_, output), float(model.n_records_)
    columns, at = {}, 0
    counted, spread = releases["cells"].statistics.counts, releases["cells"].spread
    for j, (name, bin_of) in enumerate(zip(model.schema_.names, model.bins_, strict=True)):
        released = np.bincount(bin_of, counted[at : at + len(bin_of)])
        at += len(bin_of)
        drawn = np.bincount(bin_of[cells[:, j]], minlength=len(released)) / len(cells)
        noise = spread * np.sqrt(np.bincount(bin_of)).sum()
        columns[name] = {
            "distance": _distance(released / count, drawn),
            "noise": min(_MEAN_SIZE * float(noise) / count / 2, 1.0),
        }
    if "tables" not in releases:
        return Quality(columns, None)
    release = releases["tables"]
    # The query is about cells, whatever the rows of the fit held.
    query: TablesQuery = getattr(release.query, "query", release.query)
    drawn_tables = _tables(query, cells)
    distances = [
        _distance(table / count, drawn / len(cells))
        for table, drawn in zip(query.split(release.statistics.counts), drawn_tables, strict=True)
    ]
    noise = [_MEAN_SIZE * release.spread * table.size / count / 2 for table in drawn_tables]
    last = [] if query.target is None else [query.target]
    names = [[model.schema_.names[j] for j in (*pair, *last)] for pair in query.pairs]
    # Those that are farther away than noise explains come first.
    order = np.argsort(np.subtract(noise, distances), kind="stable")
    pairs = {
        "tables": len(distances),
        "mean": float(np.mean(distances)),
        "noise": float(np.mean(noise)),
        "worst": [
            {"columns": names[t], "distance": distances[t], "noise": noise[t]}
            for t in order[:_WORST].tolist()
        ],
    }
    return Quality(columns, pairs)


def evaluated(model: Any, output: Path, test: Path, header: bool | None) -> dict[str, Any]:
    """A synthetic table and its model against public test data. Exact."""
    real = _cells(model.schema_, test, header)
    drawn = _cells(model.schema_, output)
    scores = model._state.log_density(real)
    maps = tuple(tuple(each.tolist()) for each in model.bins_)
    found: dict[str, Any] = {"rows": len(real), "mean_log_probability": float(np.mean(scores))}
    pairs = tuple(combinations(range(real.shape[1]), 2))
    if pairs:
        query = TablesQuery(maps, pairs)
        distances = [
            _distance(a / len(real), b / len(drawn))
            for a, b in zip(_tables(query, real), _tables(query, drawn), strict=True)
        ]
        found["mean_distance_of_pairs"] = float(np.mean(distances))
        found["largest_distance_of_pairs"] = float(np.max(distances))
    if model.target is not None:
        j = model.schema_.names.index(model.target)
        found |= _usefulness(drawn, real, j)
    return found


def released_shares(model: Any, releases: Mapping[str, Release[Any]]) -> Shares:
    """What was released, as shares of the records: noisy, and as private as the model."""
    count = max(float(model.n_records_), 1.0)
    sizes = np.cumsum([len(bin_of) for bin_of in model.bins_])[:-1]
    cells = np.split(releases["cells"].statistics.counts / count, sizes)
    if "tables" not in releases:
        return Shares(cells, {})
    release = releases["tables"]
    query: TablesQuery = getattr(release.query, "query", release.query)
    tables = query.split(release.statistics.counts / count)
    spread = release.spread / count
    if query.target is not None:
        spread *= math.sqrt(query.bins[query.target])
        tables = [table.sum(axis=2) for table in tables]
    return Shares(cells, dict(zip(query.pairs, tables, strict=True)), spread)


def picture(path: Path, model: Any, releases: Mapping[str, Release[Any]], output: Path) -> None:
    """Draw a synthetic table beside what was released."""
    drawn = Shares.of(_cells(model.schema_, output), model.schema_, model.bins_)
    released = released_shares(model, releases)
    title = f"{output.name}: synthetic records, epsilon {model.privacy_.epsilon:g}"
    draw_tables(path, model.schema_, model.bins_, released, drawn, title=title)


def check_test(schema: Schema, test: Path, header: bool | None) -> None:
    """Read public test data once, before anything is spent: whatever is wrong with them shows.

    Of columns whose bounds or categories are yet to be found, whether they are there.
    """
    opened = open_columns(test, header)
    for name in schema.names:
        if name not in opened.header.names:
            raise opened.header.has_none(opened.label, name)
    open_ = {*schema.without_bounds, *schema.without_categories}
    known = [name for name in schema.names if name not in open_]
    if known:
        _cells(schema.select(known), test, header)


def _usefulness(drawn: NDArray[Any], real: NDArray[Any], target: int) -> dict[str, float]:
    """How well trees trained on synthetic rows predict the target of real ones."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    others = [j for j in range(real.shape[1]) if j != target]
    if not others or not 1 < len(np.unique(drawn[:, target])) <= _MOST_VALUES:
        return {}
    trees = HistGradientBoostingClassifier(random_state=0).fit(drawn[:, others], drawn[:, target])
    found = {"accuracy": float(trees.score(real[:, others], real[:, target]))}
    if len(trees.classes_) == 2 and set(np.unique(real[:, target])) == set(trees.classes_):
        chance = trees.predict_proba(real[:, others])[:, 1]
        found["auc"] = float(roc_auc_score(real[:, target] == trees.classes_[1], chance))
    return found


def _cells(schema: Schema, path: Path, header: bool | None = None) -> NDArray[np.int64]:
    """All rows of a file as cells."""
    table = open_table(
        as_table(path, header), policy=Policy(schema=schema, fitted=True, party=True)
    )
    return np.concatenate([np.asarray(b.X, dtype=np.int64) for b in table.rows.blocks(65_536)])


def _tables(query: TablesQuery, cells: NDArray[np.int64]) -> list[Array]:
    return query.split(query(Block(cells.astype(np.float64)), Scratch()).counts)


def _distance(one: Array, two: Array) -> float:
    """Total variation; noisy shares may be further apart than any two distributions are."""
    return min(0.5 * float(np.abs(one - two).sum()), 1.0)
