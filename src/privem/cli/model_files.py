"""Model files: opening them, drawing records from them, scoring data by them."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from click import UsageError

from .. import ModelFileError, load, private_scores
from ..data import read_file
from ..data.categories import read_categories
from ..declaration import Declaration, declarations
from ..report import RECORD_SUFFIXES, Comparison, Report, print_csv, write_records
from ..report.page import write_page
from .console import note, remarks
from .failures import ExitCode, check_output, failing, reading_data, writing_file, writing_stdout
from .fit import as_table
from .ledger import opened
from .options import in_words
from .progress import WatchedRows

_BATCH = 65_536


def open_model(path: Path) -> Any:
    """A model from its file, complete."""
    with failing(ExitCode.MODEL, ModelFileError, OSError):
        if not path.exists():
            raise ModelFileError(f"there is no model file {str(path)!r}")
        model = load(path)
        lacking = [name for name in ("n_features_in_", *model._needed) if not hasattr(model, name)]
        if lacking:
            raise ModelFileError(f"{str(path)!r} is damaged: it lacks {', '.join(lacking)}")
    return model


def declaration_of(model: Any) -> Declaration:
    """What the model's kind declares about itself."""
    return next(each for each in declarations() if each.name == type(model).__name__)


def check_records(output: Path) -> None:
    """Refuse a place where records cannot be written."""
    if output.suffix not in RECORD_SUFFIXES:
        raise UsageError(f"--output {str(output)!r} must end in {', '.join(RECORD_SUFFIXES)}")
    check_output(output)


def refuse_overwriting(written: Mapping[str, Path | None], *read: Path | None) -> None:
    """Refuse to write what is read, or two things to the same file."""
    seen = {path.resolve(): "the data" for path in read if path is not None}
    for option, path in written.items():
        if path is None:
            continue
        if path.resolve() in seen:
            raise UsageError(f"{option} {str(path)!r} would overwrite {seen[path.resolve()]}")
        seen[path.resolve()] = option


def sample_model(
    model: Any, rows: int, output: Path | None, seed: int | None, background: bool = True
) -> list[str]:
    """Write records drawn from a model, typed and bounded as the data; the columns' names."""
    declared = declaration_of(model)
    if not declared.density:
        raise UsageError(
            f"a {declared.description} model has centres but no distribution to draw from; fit "
            "--model gmm instead"
        )
    if declared.target:
        raise UsageError(
            f"a {declared.command} model draws targets for given records only: sample(X) in Python"
        )
    mixed = declared.categories or declared.schema
    if mixed and output is not None and output.suffix == ".npy":
        raise UsageError("a .npy file holds numbers, not categories: use .csv or .parquet")
    names: list[str] = model._names("x")
    if not background:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = model._without_background()
        for remark in remarks(caught):
            note(remark)
    batches = _draws(model, rows, np.random.RandomState(seed))
    if output is None:
        with writing_stdout():
            print_csv(sys.stdout.buffer, names, batches)
            sys.stdout.buffer.flush()
    else:
        with writing_file(output):
            write_records(output, names, rows, batches)
    return names


def _draws(model: Any, rows: int, rng: np.random.RandomState) -> Iterator[pl.DataFrame]:
    model.random_state = rng
    frames = partial(model.sample_frame, library="polars")
    draw = model._sampler() if declaration_of(model).schema else frames
    for start in range(0, rows, _BATCH):
        yield draw(min(_BATCH, rows - start))


def write_report(models: Sequence[Path], output: Path, ledger: str | None) -> dict[str, Any]:
    """Write a page about a model, or one that compares several: a summary as JSON values."""
    # Folders are nobody's business who reads the page, unless they tell two files apart.
    named = {path.name: path for path in models}
    if len(named) < len(models):
        named = {str(path): path for path in models}
    fitted = {name: open_model(path) for name, path in named.items()}
    with failing(ExitCode.MODEL, OSError):
        digests = {name: sha256(path.read_bytes()).hexdigest() for name, path in named.items()}
    if len(models) > 1:
        text = Comparison(fitted, digests).html
    else:
        ((name, model),) = fitted.items()
        text = Report(model, name, digests[name], ledger and opened(ledger)).html
    with writing_file(output):
        write_page(output, text)
    return {"models": digests}


def score_file(model: Any, data: Path, target: str | None, header: bool | None) -> dict[str, Any]:
    """How well a model describes a file, exactly: a summary as JSON values."""
    declared = declaration_of(model)
    if target is None and declared.target:
        target = getattr(model, "target_name_in_", None)
    if declared.target != (target is not None):
        raise UsageError(
            f"a {declared.command} model needs --target, the column to be explained"
            if target is None
            else f"--target is for regressions, not for a {declared.command} model"
        )
    with reading_data(), warnings.catch_warnings():
        # Values far outside overflow on the way to a density of zero; that is said below.
        warnings.simplefilter("ignore", RuntimeWarning)
        value, count = _score(model, declared, data, target, header)
        if not np.isfinite(value):
            raise ValueError(
                f"{str(data)!r} holds values so far from the model that the score overflows"
            )
    summary: dict[str, Any] = {"model": declared.command, "data": str(data), "private": False}
    summary |= {"rows": count} | ({} if target is None else {"target": target})
    if not declared.density:
        return summary | {"minus_inertia": value, "mean_squared_distance": -value / count}
    return summary | {"mean_log_density": value}


def _score(
    model: Any, declared: Declaration, data: Path, target: str | None, header: bool | None
) -> tuple[float, int]:
    """The score, and of how many rows."""
    if declared.schema:
        each = model.score_samples(as_table(data, header))
        return float(np.mean(each)), len(each)
    columns = fitted_columns(model, data)
    if declared.categories:
        known = model.categories_
        table = read_categories(data, columns=columns, header=header, categories=known)[0]
        return float(model.score(table)), len(table)
    if target is not None:
        each = model.log_likelihood(read_file(data, columns, target=target, header=header), None)
        return float(np.mean(each)), len(each)
    rows = WatchedRows(read_file(data, columns, header=header))
    return float(model.score(rows)), rows.count


def fitted_columns(model: Any, data: Path) -> list[str] | None:
    """Those the model was fitted to. A .npy file has no names; a model of one knows none."""
    by_name = data.suffix != ".npy" and hasattr(model, "feature_names_in_")
    return model._names() if by_name else None


def score_privately(
    models: dict[str, Any],
    data: Path,
    epsilon: float,
    delta: float | None,
    ledger: str | None,
    **how: Any,
) -> dict[str, Any]:
    """Mean log-densities of a file under a budget of their own: a summary as JSON values.

    ``models``: by the names of their files, the first one first.
    """
    for model in models.values():
        _check_scored(model)
    for name, value, most in (("epsilon", epsilon, np.inf), ("delta", delta, 1.0)):
        if value is not None and not 0 < value < most:
            raise UsageError(f"--{name} {value:g} must lie between 0 and {most:g}")
    given: dict[str, Any] = {"epsilon": epsilon, "ledger": ledger} | (
        {} if delta is None else {"delta": delta}
    )
    first = next(iter(models.values()))
    with reading_data(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        columns = fitted_columns(first, data)
        rows: Any
        if declaration_of(first).schema:
            rows, given["groups"] = as_table(data, how["header"]), how["groups"]
        elif declaration_of(first).categories:
            known = {"categories": first.categories_, "private": True}
            rows, _, given["groups"] = read_categories(data, columns=columns, **known, **how)
        else:
            rows = read_file(data, columns, **how)
        scores = private_scores(models, rows, **given)
    each = [
        {"model": declaration_of(model).command, "mean_log_density": value, "deviation": noise}
        for model, value, noise in zip(
            models.values(), scores.value.tolist(), scores.deviation.tolist(), strict=True
        )
    ]
    summary: dict[str, Any] = {"data": str(data), "private": True}
    if len(models) == 1:
        summary |= each[0]
    else:
        summary["scores"] = dict(zip(models, each, strict=True))
        summary["difference_deviation"] = scores.difference_deviation
        summary["ranking"] = [scores.names[i] for i in scores.ranking]
        summary["comparison"] = scores._lines()
    return summary | {
        "limits": list(scores.limits),
        "statement": str(scores.privacy),
        "privacy": scores.privacy.to_dict(),
        "warnings": remarks(caught),
    }


def _check_scored(model: Any) -> None:
    command = declaration_of(model).command
    if not hasattr(type(model), "private_score"):
        able = [d.command for d in declarations() if hasattr(d.estimator, "private_score")]
        raise UsageError(
            f"--epsilon scores {in_words(able)} models; of a {command} model there are exact "
            "scores only"
        )
    if not hasattr(model, "privacy_"):
        raise UsageError(
            "--epsilon is for models that were fitted privately: this one itself gives records away"
        )
