"""``privem fit``: from a file to a model, and from a fit to a summary."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from ..data import read_file
from ..data.categories import read_categories
from ..data.header import numbered
from .choices import Covariance, Neighbours
from .console import remarks
from .failures import reading_data, writing_file
from .kinds import Kind
from .options import categories_of
from .progress import FitProgress, WatchedRows
from .settings import Settings
from .summary import NOT_PRIVATE, exact_results, public_results

__all__ = ["Covariance", "Neighbours", "Settings", "fit_file"]


def fit_file(
    settings: Settings,
    data: Path,
    columns: Sequence[str] | None,
    destination: Path,
    quiet: bool,
    types: Mapping[str, str] | None = None,
    header: bool | None = None,
) -> tuple[Any, dict[str, Any]]:
    """Fit a file and save the model; the estimator and a summary fit for JSON."""
    estimator = settings.estimator()
    start = time.perf_counter()
    with (
        reading_data(),
        warnings.catch_warnings(record=True) as caught,
        FitProgress(estimator.max_iter, quiet, timed=settings.exact) as progress,
    ):
        warnings.simplefilter("always")
        estimator._watch = progress.watch
        if settings.kind is Kind.categorical:
            counted = fit_categories(settings, estimator, data, columns, header)
        else:
            opened = _open(settings, data, columns, types, header)
            # Only an exact fit counts its rows, on the screen or in the summary, or minds having
            # none.
            rows: Any = WatchedRows(opened, progress.seen) if settings.exact else opened
            # A .npy file has no names: the ones that privem sample gives its columns.
            names = rows.names or numbered(rows.n_features)
            features = names[:-1] if settings.target else names
            settings.tell(estimator, features, named=rows.names is not None)
            estimator.fit(rows)
            counted = (rows.count, rows.total_weight) if settings.exact else None
        del estimator._watch
    seconds = time.perf_counter() - start
    with writing_file(destination):
        estimator.save(destination)
    stopped = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    summary: dict[str, Any] = {
        "model": str(settings.kind),
        "data": str(data),
        "output": str(destination),
        "columns": estimator._names(),
        **({"target": settings.target} if settings.target else {}),
        "components": settings.components,
        "private": not settings.exact,
        "epsilon": estimator.epsilon,
        "delta": None if settings.exact else estimator.delta,
        "statement": NOT_PRIVATE if settings.exact else str(estimator.privacy_),
        "iterations": int(estimator.n_iter_),
        "warnings": remarks(caught),
    }
    if counted is None:
        # How many rows there are, how long it took, what else was seen: nobody paid for it.
        return estimator, summary | {
            "privacy": estimator.privacy_.to_dict(),
            **public_results(estimator),
        }
    return estimator, summary | {
        "rows": counted[0],
        "total_weight": counted[1],
        "converged": not stopped,
        "seconds": round(seconds, 6),
        **exact_results(estimator, counted[1]),
    }


def _open(
    settings: Settings,
    data: Path,
    columns: Sequence[str] | None,
    types: Mapping[str, str] | None,
    header: bool | None,
) -> Any:
    """Rows of a file, a target as their last column."""
    weight, groups = settings.weight, settings.groups
    if settings.target is not None and data.suffix == ".npy":
        raise ValueError(f"{str(data)!r}: a .npy file has no column names, so no target column")
    rows: Any = read_file(
        data, columns, weight, types=types, groups=groups, target=settings.target, header=header
    )
    # The estimator of a private fit refuses missing values itself, and maps others by a fixed rule:
    # an error would be a release. Where values may be missing, it looks itself as well.
    if not settings.exact or settings.kind is Kind.missing_regression:
        rows = replace(rows, check=False)
    return rows


def fit_categories(
    settings: Settings,
    estimator: Any,
    data: Path,
    columns: Sequence[str] | None,
    header: bool | None,
) -> tuple[int, float] | None:
    """Fit columns of categories, read whole; how many rows and their weight, if that is exact."""
    table, weights, groups = read_categories(
        data,
        columns=columns,
        weight=settings.weight,
        groups=settings.groups,
        private=not settings.exact,
        header=header,
        categories=categories_of(settings.categories) or None,
    )
    names = numbered(table.shape[1]) if data.suffix == ".npy" else table.columns
    settings.tell(estimator, names)
    estimator.fit(table, sample_weight=weights, groups=groups)
    if not settings.exact:
        return None
    return len(table), float(len(table) if weights is None else weights.sum())
