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

from ..estimators import FactorAnalysis, GaussianMixture, KMeans, ModelFileError, load
from ..report import print_csv, write_records
from ..sources import read_file
from .failures import ExitCode, Failure, reading_data, reading_model, writing_stdout
from .progress import WatchedRows

__all__ = ["open_model", "sample_model", "score_file"]

_BATCH = 65_536
_SHORT = {GaussianMixture: "gmm", KMeans: "kmeans", FactorAnalysis: "fa"}


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
        yield model.sample_frame(min(_BATCH, rows - start))


def score_file(model: Any, data: Path) -> dict[str, Any]:
    """How well a model describes a file: a summary fit for JSON."""
    # A .npy file has no names, and a model fitted on one knows none: then by position.
    by_name = data.suffix != ".npy" and hasattr(model, "feature_names_in_")
    with reading_data(), warnings.catch_warnings():
        # Values far outside overflow on the way to a density of zero; that is said below.
        warnings.simplefilter("ignore", RuntimeWarning)
        rows = WatchedRows(read_file(data, columns=_names(model) if by_name else None))
        value = float(model.score(rows))
    if not np.isfinite(value):
        raise Failure(
            ExitCode.DATA,
            f"{str(data)!r} holds values so far from the model that the score overflows",
        )
    summary = {"model": _SHORT[type(model)], "data": str(data), "rows": rows.count}
    if isinstance(model, KMeans):
        return summary | {"minus_inertia": value, "mean_squared_distance": -value / rows.count}
    return summary | {"mean_log_density": value}
