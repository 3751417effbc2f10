"""``privem synth``: from a table and its schema to a synthetic table and a report on it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from click import UsageError
from rich.text import Text

from ..core import Release, Stage
from ..declaration import declared
from ..estimator.verbose import watching
from ..models.table_mixture.forecast import forecast
from ..report import MissingExtra
from .console import aligned, emit_json, note, remarks, show, table_of
from .failures import ExitCode, check_output, failing, reading_data, writing_file
from .fit import Request, fit_table
from .model_files import sample_model
from .progress import FitProgress
from .quality import check_test, compared, evaluated
from .quality import picture as draw_picture

_DISTANCES = ["distance", "of the truth"]
_MEANINGS = {
    "rows": "rows",
    "mean_log_probability": "log-probability",
    "mean_distance_of_pairs": "pairs: mean distance",
    "largest_distance_of_pairs": "pairs: largest",
    "accuracy": "accuracy of trees",
    "auc": "AUC of trees",
}
_NOT_PRIVATE = "exact fit: nothing here is private. Treat the table as you would treat the data."


# What comes after each release, and which step that is.
_NEXT = {
    "count": ("counting values", 1),
    "cells": ("counting pairs of columns", 2),
    "tables": ("fitting the model", 3),
}


@dataclass
class _Seen:
    """The releases of a fit, as they come."""

    progress: FitProgress
    private: bool
    releases: dict[str, Release[Any]] = field(default_factory=dict)

    def watch(self, stage: Stage, release: Release[Any]) -> None:
        self.releases[stage.name] = release
        if self.private:
            self.progress.step(*_NEXT.get(stage.name, _NEXT["count"]))
        else:
            self.progress.watch(stage, release)


def check_picture(picture: Path, exact: bool) -> None:
    """Refuse a picture that could not be drawn later."""
    if picture.suffix != ".png":
        raise UsageError(f"--picture {str(picture)!r} must end in .png")
    if exact:
        raise UsageError("--picture shows what a private fit has released: leave out --exact")
    if find_spec("matplotlib") is None:
        raise UsageError(str(MissingExtra("matplotlib", "plot", "pictures")))
    check_output(picture)


def make_request(**asked: Any) -> Request:
    """The fit that is asked for; complains about parameters before any file is touched."""
    if asked.get("schema") is None:
        raise UsageError(
            "--schema says what the columns are: privem schema DATA -o schema.toml begins one"
        )
    request = Request.of(model=declared("TableMixture"), **asked)
    schema = request.estimator().schema
    request.check_columns()
    if request.target is not None and request.target not in schema.names:
        raise UsageError(
            f"--target {request.target!r} is no column of the schema; it has "
            f"{', '.join(schema.names)}"
        )
    return request


def synthesize(
    request: Request,
    data: Path,
    output: Path,
    rows: int | None,
    model_file: Path | None,
    evaluate: Path | None,
    picture: Path | None,
    quiet: bool,
) -> dict[str, Any]:
    """Fit, draw, write and compare; a summary as JSON values."""
    estimator = request.estimator()
    header = request.header if evaluate is not None and evaluate.suffix == ".csv" else None
    if evaluate is not None:
        with reading_data():
            check_test(estimator.schema, evaluate, header)
    steps = estimator.max_iter if request.exact else len(_NEXT) + 1
    with (
        warnings.catch_warnings(record=True) as caught,
        FitProgress(steps, quiet, timed=request.exact) as progress,
    ):
        warnings.simplefilter("always")
        seen = _Seen(progress, not request.exact)
        with reading_data(), watching(estimator, seen.watch):
            fit_table(request, estimator, data)
        progress.step("drawing records", steps)
        if model_file is not None:
            with writing_file(model_file):
                estimator.save(model_file)
        count = max(1, round(estimator.n_records_)) if rows is None else rows
        sample_model(estimator, count, output, request.given.get("random_state"))
    summary: dict[str, Any] = {
        "data": str(data),
        "output": str(output),
        "rows": count,
        "columns": estimator.schema_.names,
        "target": estimator.target,
        "constraints": estimator.schema_.to_dict().get("constraints", []),
        "classes": len(estimator.weights_),
        "private": not request.exact,
        "statement": _NOT_PRIVATE if request.exact else str(estimator.privacy_),
        "warnings": remarks(caught),
    }
    if not request.exact:
        summary["privacy"] = estimator.privacy_.to_dict()
        quality = compared(estimator, seen.releases, output)
        summary["quality"] = quality.to_dict()
        if picture is not None:
            with writing_file(picture):
                draw_picture(picture, estimator, seen.releases, output)
            summary["picture"] = str(picture)
    if evaluate is not None:
        with reading_data():
            summary["evaluation"] = evaluated(estimator, output, evaluate, header)
    return summary


def report(summary: dict[str, Any], as_json: bool, quiet: bool) -> None:
    """Print what was made."""
    if as_json:
        emit_json(summary)
        return
    if quiet:
        return
    for remark in summary["warnings"]:
        note(remark)
    facts = {"rows": f"{summary['rows']:,}", "columns": len(summary["columns"])}
    facts |= {"target": summary["target"]} if summary["target"] else {}
    held = len(summary["constraints"])
    facts |= {"constraints": f"{held}, kept by every row"} if held else {}
    facts |= {"classes of the model": summary["classes"]}
    facts |= {"picture": summary["picture"]} if "picture" in summary else {}
    pieces: list[Any] = [f"Wrote {aligned(summary['output'], facts)}\n"]
    if "quality" in summary:
        pieces += _quality(summary["quality"])
    if "evaluation" in summary:
        said = {
            _MEANINGS[name]: f"{value:,}" if name == "rows" else f"{value:.4g}"
            for name, value in summary["evaluation"].items()
        }
        pieces.append(f"{aligned('Against the test data (exact, not private)', said)}\n")
    pieces.append(Text(summary["statement"]))
    show(*pieces)


def _quality(quality: dict[str, Any]) -> Sequence[Any]:
    """Distances of the synthetic table from what was released."""
    found = quality["columns"]
    columns = [[f"{one[key]:.4f}" for one in found.values()] for key in ("distance", "noise")]
    said: list[Any] = [
        Text(
            "How far the synthetic table is from the noisy numbers that were released, and how far "
            "the truth would be, because of the noise (total variation, from 0 to 1). About the "
            "same: no difference can be seen.\n"
        ),
        table_of(["column", *map(_brief, found)], list(zip(_DISTANCES, columns, strict=True))),
        "",
    ]
    if "pairs" in quality:
        each = quality["pairs"]
        labels = [", ".join(map(_brief, one["columns"])) for one in each["worst"]]
        rows = [*each["worst"], {"distance": each["mean"], "noise": each["noise"]}]
        columns = [[f"{one[key]:.4f}" for one in rows] for key in ("distance", "noise")]
        heads = ["columns together", *labels, f"mean of all {each['tables']}"]
        said += [table_of(heads, list(zip(_DISTANCES, columns, strict=True))), ""]
    return said


def forecasts(request: Request, records: int) -> dict[str, Any]:
    """What fits of about so many records will see, by epsilon; as JSON values. Spends nothing."""
    if request.exact:
        raise UsageError("--forecast is about noise, and --exact has none")
    estimator = request.estimator()
    schema = estimator.schema
    found = []
    for factor in (0.25, 1.0, 4.0):
        estimator.epsilon = factor * float(request.given.get("epsilon", 1.0))
        with failing(ExitCode.USAGE, ValueError):
            one = forecast(schema, estimator.target, None, estimator._terms(), records)
        found.append({"epsilon": estimator.epsilon, "seen": one.seen} | asdict(one))
    return {"records": records, "columns": schema.names, "forecasts": found}


def report_forecast(summary: dict[str, Any], as_json: bool) -> None:
    """Print a forecast."""
    if as_json:
        emit_json(summary)
        return
    found, n = summary["forecasts"], summary["records"]
    asked = found[1]
    columns = [
        (
            f"epsilon {each['epsilon']:g}",
            [
                f"{each['seen']:,.0f}",
                f"{each['seen'] / n:.2%}",
                str(each["bins"]),
                str(each["classes"]),
            ],
        )
        for each in found
    ]
    labels = ["", "records that must be alike", "... of all", "bins of numbers", "classes a search"]
    show(
        Text(
            f"A forecast for about {n:,} records of {len(summary['columns'])} columns "
            f"({asked['tables']} tables). Nothing was read, and nothing was spent.\n"
        ),
        table_of(labels, columns),
        "",
        Text(
            f"What fewer than about {asked['seen']:,.0f} records have in common disappears in the "
            f"noise with epsilon {asked['epsilon']:g}. {_advice(asked, n)}"
        ),
    )


def _advice(asked: dict[str, Any], n: int) -> str:
    share = asked["seen"] / n
    if not asked["tables"]:
        return (
            "That is too much for tables of pairs: columns will be independent of each other. "
            "Single ones are rough too if it is a tenth of the records or more. More records, "
            "fewer columns or a larger epsilon would help."
        )
    if share < 0.01:
        return "That is little: expect frequent patterns to be right."
    if share < 0.05:
        return "Expect frequent patterns to be right, and rare ones to be lost."
    return (
        "That is much: expect single columns to be about right, and little of how they depend. "
        "More records, fewer columns or a larger epsilon would help."
    )


def _brief(name: str) -> str:
    return name if len(name) <= 16 else f"{name[:13]}..."
