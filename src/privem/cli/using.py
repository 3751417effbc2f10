"""``privem sample`` and ``privem score``: what to do with a model file."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import polars as pl

from ..estimators import CategoricalMixture, KMeans, ModelFileError, load
from ..report import print_csv, write_records
from ..sources import read_file
from .failures import ExitCode, Failure, reading_data, reading_model, writing_stdout
from .kinds import FACTS, TARGETED, kind_of
from .progress import WatchedRows

__all__ = ["open_model", "sample_model", "score_file"]

_BATCH = 65_536


def open_model(path: Path) -> Any:
    """A model from its file, complete."""
    with reading_model():
        model = load(path)
        lacking = [name for name in ("n_features_in_", *model._needed) if not hasattr(model, name)]
        if lacking:
            raise ModelFileError(f"{str(path)!r} is damaged: it lacks {', '.join(lacking)}")
    return model


def sample_model(model: Any, rows: int, output: Path | None, seed: int | None) -> list[str]:
    """Write records drawn from a model, typed and bounded as the data; the columns' names."""
    if isinstance(model, KMeans):
        raise click.UsageError(
            "a k-means model has centres but no distribution to draw from; fit --model gmm instead"
        )
    if kind_of(model) in TARGETED:
        raise click.UsageError(
            f"a {kind_of(model)} model draws targets for given records only: sample(X) in Python"
        )
    if isinstance(model, CategoricalMixture) and output is not None and output.suffix == ".npy":
        raise click.UsageError("a .npy file holds numbers, not categories: use .csv or .parquet")
    names = _names(model)
    batches = _draws(model, rows, np.random.RandomState(seed))
    if output is None:
        with writing_stdout():
            print_csv(sys.stdout.buffer, names, batches)
            sys.stdout.buffer.flush()
    else:
        write_records(output, names, rows, batches)
    return names


def _names(model: Any) -> list[str]:
    if hasattr(model, "feature_names_in_"):
        return [str(name) for name in model.feature_names_in_]
    return [f"x{j}" for j in range(model.n_features_in_)]


def _draws(model: Any, rows: int, rng: np.random.RandomState) -> Iterator[pl.DataFrame]:
    model.random_state = rng
    for start in range(0, rows, _BATCH):
        count = min(_BATCH, rows - start)
        if isinstance(model, CategoricalMixture):
            yield _categories(model, count, rng)
        else:
            yield model.sample_frame(count)


def _categories(model: Any, rows: int, rng: np.random.RandomState) -> pl.DataFrame:
    """Records drawn in random order, each column of the type of its categories."""
    drawn = model.sample(rows)[0][rng.permutation(rows)]
    columns = {}
    for name, values, known in zip(_names(model), drawn.T, model.categories_, strict=True):
        kind = str if known.dtype.kind == "O" else known.dtype
        columns[name] = pl.Series(name, values.astype(kind).tolist())
    return pl.DataFrame(columns)


def score_file(model: Any, data: Path, target: str | None = None) -> dict[str, Any]:
    """How well a model describes a file: a summary fit for JSON."""
    kind = kind_of(model)
    if FACTS[kind].target != (target is not None):
        raise click.UsageError(
            f"a {kind} model needs --target, the column to be explained"
            if target is None
            else f"--target is for regressions, not for a {kind} model"
        )
    # A .npy file has no names, and a model fitted on one knows none: then by position.
    by_name = data.suffix != ".npy" and hasattr(model, "feature_names_in_")
    with reading_data(), warnings.catch_warnings():
        # Values far outside overflow on the way to a density of zero; that is said below.
        warnings.simplefilter("ignore", RuntimeWarning)
        if target is not None or isinstance(model, CategoricalMixture):
            each = (
                model.score_samples(data) if target is None else model.log_likelihood(data, target)
            )
            value, count = float(np.mean(each)), len(each)
        else:
            rows = WatchedRows(read_file(data, columns=_names(model) if by_name else None))
            value = float(model.score(rows))
            count = rows.count
    if not np.isfinite(value):
        raise Failure(
            ExitCode.DATA,
            f"{str(data)!r} holds values so far from the model that the score overflows",
        )
    summary = {"model": str(kind), "data": str(data), "rows": count}
    if isinstance(model, KMeans):
        return summary | {"minus_inertia": value, "mean_squared_distance": -value / count}
    return summary | {"mean_log_density": value}
