"""How near synthetic rows are to real ones, and how useful."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
from columns import Columns, Labels, Numbers, on_grid

from privem import TableMixture


def distances(columns: Columns, real: np.ndarray, other: np.ndarray) -> dict[str, float | str]:
    """Total variation between tables of two columns.

    ``pairs`` (the mean) and ``worst`` cut numbers at twentieths of the real rows, ``on_grid`` is
    the mean where the shared grid cuts them.
    """
    codes = [_at_twentieths(columns, real, rows) for rows in (real, other)]
    apart = _pairs(*codes)
    worst = max(apart, key=lambda pair: apart[pair])
    grid = _pairs(*(on_grid(columns, rows) for rows in (real, other)))
    return {
        "pairs": float(np.mean(list(apart.values()))),
        "worst": apart[worst],
        "worst_pair": " x ".join(columns[j].name for j in worst),
        "on_grid": float(np.mean(list(grid.values()))),
    }


def _at_twentieths(columns: Columns, real: np.ndarray, rows: np.ndarray) -> np.ndarray:
    codes = on_grid(columns, rows)
    for j, column in enumerate(columns):
        if isinstance(column, Numbers):
            cuts = np.unique(np.nanquantile(real[:, j], np.linspace(0, 1, 21)))[1:-1]
            code = np.searchsorted(cuts, rows[:, j], side="right")
            codes[:, j] = np.where(np.isnan(rows[:, j]), len(cuts) + 1, code)
    return codes


def _pairs(a: np.ndarray, b: np.ndarray) -> dict[tuple[int, int], float]:
    sizes = np.maximum(a.max(axis=0), b.max(axis=0)) + 1
    apart = {}
    for i, j in itertools.combinations(range(len(sizes)), 2):
        first, second = (
            np.bincount(x[:, i] * sizes[j] + x[:, j], minlength=sizes[i] * sizes[j]) / len(x)
            for x in (a, b)
        )
        apart[i, j] = float(np.abs(first - second).sum() / 2)
    return apart


def usefulness(
    columns: Columns, synthetic: np.ndarray, test: np.ndarray, target: int
) -> dict[str, float]:
    """AUC on test rows of trees and of a logistic regression trained on synthetic rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    others = [j for j in range(len(columns)) if j != target]
    synthetic = synthetic[~np.isnan(synthetic[:, target])]
    y, y_test = (v[:, target].astype(int) for v in (synthetic, test))
    if len(np.unique(y)) < 2:
        return {"trees": 0.5, "linear": 0.5}
    kinds = [isinstance(columns[j], Labels) for j in others]
    trees = HistGradientBoostingClassifier(
        categorical_features=kinds, random_state=0, max_iter=100, early_stopping=True
    ).fit(synthetic[:, others], y)
    hot = [_features([columns[j] for j in others], v[:, others]) for v in (synthetic, test)]
    linear = LogisticRegression(max_iter=300).fit(hot[0], y)
    return {
        "trees": float(roc_auc_score(y_test, trees.predict_proba(test[:, others])[:, 1])),
        "linear": float(roc_auc_score(y_test, linear.predict_proba(hot[1])[:, 1])),
    }


def _features(columns: Columns, values: np.ndarray) -> np.ndarray:
    """Numbers about their middle (gains and losses as logarithms), and categories as indicators."""
    parts = []
    for column, v in zip(columns, values.T, strict=True):
        if isinstance(column, Labels):
            parts.append(v[:, None] == np.arange(len(column.labels)))
            continue
        if column.missing:
            parts.append(np.isnan(v)[:, None])
            v = np.where(np.isnan(v), (column.low + column.high) / 2, v)
        if column.name in ("capital-gain", "capital-loss"):
            parts.append(np.log1p(np.maximum(v, 0))[:, None] / 5)
        elif column.name == "age":
            parts.append(np.stack([(v - 40) / 15, ((v - 40) / 15) ** 2], axis=1))
        elif column.name == "fnlwgt":
            parts.append(np.log(np.maximum(v, 1e4))[:, None] - 12)
        else:
            middle = (v - column.low) / (column.high - column.low) * 4 - 2
            parts.append(middle[:, None])
    return np.concatenate(parts, axis=1).astype(float)


def density(columns: Columns, model: TableMixture, rows: np.ndarray) -> float:
    """Mean log-likelihood of complete rows of whole numbers and categories on the shared grid."""
    cells, total, begin = on_grid(columns, rows), np.log(model.weights_)[:, None], [0, 0]
    for j, column in enumerate(columns):
        bins = model.bins_[j]
        profile = model.profiles_[:, begin[0] : begin[0] + bins.max() + 1]
        law = profile[:, bins] * model.cell_law_[begin[1] : begin[1] + len(bins)]
        begin = [begin[0] + bins.max() + 1, begin[1] + len(bins)]
        if isinstance(column, Numbers):
            law = law @ _onto_grid(column, model.schema_.firsts(column.name))
        total = total + np.log(np.maximum(law, 1e-300))[:, cells[:, j]]
    top = total.max(axis=0)
    return float(np.mean(top + np.log(np.exp(total - top).sum(axis=0))))


def _onto_grid(column: Numbers, firsts: Iterable[float]) -> np.ndarray:
    """The share of each of the schema's cells, known by their first numbers, in the grid's."""
    ends = np.concatenate([[-np.inf], column.cuts, [np.inf]])
    # A whole number stands for what is within a half of it.
    edges = np.array([*firsts, column.high + 1])[:, None] - 0.5
    low, high = edges[:-1], edges[1:]
    inside = np.minimum(high, ends[1:]) - np.maximum(low, ends[:-1])
    return np.maximum(inside, 0.0) / (high - low)
