"""``privem sample``, and opening model files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from .. import CategoricalMixture, KMeans, ModelFileError, load
from ..report import print_csv, write_records
from .failures import UsageError, reading_model, writing_file, writing_stdout
from .kinds import TARGETED, kind_of

__all__ = ["column_names", "open_model", "sample_model"]

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
        raise UsageError(
            "a k-means model has centres but no distribution to draw from; fit --model gmm instead"
        )
    if kind_of(model) in TARGETED:
        raise UsageError(
            f"a {kind_of(model)} model draws targets for given records only: sample(X) in Python"
        )
    if isinstance(model, CategoricalMixture) and output is not None and output.suffix == ".npy":
        raise UsageError("a .npy file holds numbers, not categories: use .csv or .parquet")
    names = column_names(model)
    batches = _draws(model, rows, np.random.RandomState(seed))
    if output is None:
        with writing_stdout():
            print_csv(sys.stdout.buffer, names, batches)
            sys.stdout.buffer.flush()
    else:
        with writing_file(output):
            write_records(output, names, rows, batches)
    return names


def column_names(model: Any) -> list[str]:
    """Of the data it was fitted to; those without any are called x0, x1, ..."""
    if hasattr(model, "feature_names_in_"):
        return [str(name) for name in model.feature_names_in_]
    return [f"x{j}" for j in range(model.n_features_in_)]


def _draws(model: Any, rows: int, rng: np.random.RandomState) -> Iterator[pl.DataFrame]:
    model.random_state = rng
    for start in range(0, rows, _BATCH):
        yield model.sample_frame(min(_BATCH, rows - start))
