"""``privem predict``: what a model says of single rows, for whoever holds them."""

from __future__ import annotations

import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from click import UsageError
from sklearn.utils import get_tags

from ..data import read_file
from ..data.categories import read_categories
from ..declaration import declarations
from ..linalg import first_largest
from ..report import print_csv, write_records
from .failures import reading_data, writing_file, writing_stdout
from .fit import as_table
from .model_files import declaration_of, fitted_columns
from .options import in_words

STATEMENT = (
    "Predictions are about the rows they were made for, one by one: they are not private, however "
    "private the model is. Treat them as you would treat those rows."
)


def check_predicts(model: Any, proba: bool, target: str | None) -> None:
    """Refuse what a model cannot predict, before any row is read."""
    declared = declaration_of(model)
    for method, what in (("predict", "labels"), ("predict_proba", "probabilities")):
        if method == "predict_proba" and not proba:
            continue
        if not hasattr(model, method):
            able = in_words([d.command for d in declarations() if hasattr(d.estimator, method)])
            raise UsageError(f"{able} models predict {what}; a {declared.command} model does not")
    if target is not None and not declared.schema:
        raise UsageError(f"--target is for table models, not for a {declared.command} model")
    if target is not None and target not in model.schema_.names:
        known = ", ".join(model.schema_.names)
        raise UsageError(f"--target {target!r} is no column of the model; it has {known}")


def predict_file(
    model: Any,
    data: Path,
    output: Path | None,
    proba: bool,
    target: str | None,
    header: bool | None,
) -> dict[str, Any]:
    """Write predictions for the rows of a file, in their order; a summary as JSON values."""
    declared = declaration_of(model)
    with reading_data(), warnings.catch_warnings():
        # Values far outside overflow on the way to a density of zero.
        warnings.simplefilter("ignore", RuntimeWarning)
        if declared.schema and (target or model.target):
            frame = _value(model, target or model.target, as_table(data, header), proba)
        else:
            frame = _labels(model, data, proba, header)
    if output is None:
        with writing_stdout():
            print_csv(sys.stdout.buffer, frame.columns, [frame])
            sys.stdout.buffer.flush()
    else:
        with writing_file(output):
            write_records(output, frame.columns, len(frame), [frame])
    return {
        "model": declared.command,
        "data": str(data),
        "output": None if output is None else str(output),
        "rows": len(frame),
        "columns": frame.columns,
        "private": False,
        "statement": STATEMENT,
    }


def _labels(model: Any, data: Path, proba: bool, header: bool | None) -> pl.DataFrame:
    """The component of each row or, of a regression, what it expects of the target."""
    declared = declaration_of(model)
    rows = _rows(model, data, header)
    if declared.target:
        name = getattr(model, "target_name_in_", None) or "prediction"
        return pl.DataFrame({name: model.predict(rows)})
    if not proba:
        return pl.DataFrame({"label": model.predict(rows).astype(np.int64)})
    each = model.predict_proba(rows)
    found = {"label": first_largest(each, 1)}
    return pl.DataFrame(found | {f"p{k}": each[:, k] for k in range(each.shape[1])})


def _rows(model: Any, data: Path, header: bool | None) -> Any:
    """The rows of a file, as the model takes them."""
    declared = declaration_of(model)
    if declared.schema:
        return as_table(data, header)
    columns = fitted_columns(model, data)
    if declared.categories:
        known = model.categories_
        return read_categories(data, columns=columns, header=header, categories=known)[0]
    rows: Any = read_file(data, columns, header=header)
    return replace(rows, check=False) if get_tags(model).input_tags.allow_nan else rows


def _value(model: Any, target: str, table: Any, proba: bool) -> pl.DataFrame:
    """The most probable value of a column of a mixed table, given the others.

    Of numbers and dates, the first value of the most probable cell.
    """
    law = pl.DataFrame(model.conditional(target, table))
    at = law.to_numpy().argmax(axis=1)
    best = model.schema_.firsts(target).gather(at).alias(target)
    found = [best, *(law.rename(lambda value: f"{target}={value}") if proba else [])]
    return pl.DataFrame(found)
