"""``privem synth``: from a table and its schema to a synthetic table and a report on it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click import UsageError
from rich.text import Text

from ..core import Release, Stage
from ..declaration import declared
from ..estimator.verbose import watching
from .console import aligned, emit_json, note, numbers, remarks, show
from .failures import reading_data, writing_file
from .fit import Request, fit_table
from .model_files import sample_model
from .progress import FitProgress
from .quality import compared, evaluated

_NOT_PRIVATE = "exact fit: nothing here is private. Treat the table as you would treat the data."


@dataclass
class _Seen:
    """The releases of a fit, as they come."""

    progress: FitProgress
    releases: dict[str, Release[Any]] = field(default_factory=dict)

    def watch(self, stage: Stage, release: Release[Any]) -> None:
        self.releases[stage.name] = release
        self.progress.watch(stage, release)


def make_request(**asked: Any) -> Request:
    """The fit that is asked for; complains about parameters before any file is touched."""
    if asked.get("schema") is None:
        raise UsageError(
            "--schema says what the columns are: privem schema DATA -o schema.toml begins one"
        )
    request = Request.of(model=declared("TableMixture"), **asked)
    request.estimator()
    request.check_columns()
    return request


def synthesize(
    request: Request,
    data: Path,
    output: Path,
    rows: int | None,
    model_file: Path | None,
    evaluate: Path | None,
    quiet: bool,
) -> dict[str, Any]:
    """Fit, draw, write and compare; a summary as JSON values."""
    estimator = request.estimator()
    with (
        reading_data(),
        warnings.catch_warnings(record=True) as caught,
        FitProgress(estimator.max_iter, quiet, timed=request.exact) as progress,
    ):
        warnings.simplefilter("always")
        seen = _Seen(progress)
        with watching(estimator, seen.watch):
            fit_table(request, estimator, data)
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
        "classes": len(estimator.weights_),
        "private": not request.exact,
        "statement": _NOT_PRIVATE if request.exact else str(estimator.privacy_),
        "warnings": remarks(caught),
    }
    if not request.exact:
        summary["privacy"] = estimator.privacy_.to_dict()
        quality = compared(estimator, seen.releases, output)
        summary["quality"] = quality.to_dict()
    if evaluate is not None:
        with reading_data():
            summary["evaluation"] = evaluated(
                estimator, output, evaluate, request.header if evaluate.suffix == ".csv" else None
            )
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
    facts |= {"classes": summary["classes"]}
    pieces: list[Any] = [f"{aligned(summary['output'], facts)}\n"]
    if "quality" in summary:
        pieces += _quality(summary["quality"])
    if "evaluation" in summary:
        found = summary["evaluation"]
        said = {name.replace("_", " "): f"{value:.4g}" for name, value in found.items()}
        pieces.append(f"{aligned('Against the test data (exact, not private)', said)}\n")
    pieces.append(Text(summary["statement"]))
    show(*pieces)


def _quality(quality: dict[str, Any]) -> Sequence[Any]:
    """Distances of the synthetic table from what was released."""
    found = quality["columns"]
    rows = [[each["distance"], each["noise"]] for each in found.values()]
    said: list[Any] = [
        "How far the synthetic table is from what was released (total variation), and how far "
        "noise alone would put it:\n",
        *numbers("column", list(found), ["distance", "of noise alone"], rows),
    ]
    if "pairs" in quality:
        each = quality["pairs"]
        said.append(
            f"\n  tables released: {each['tables']}; mean distance {each['mean']:.3g} (of noise "
            f"alone: {each['noise']:.3g}), the largest {each['worst']:.3g}, of "
            f"{' and '.join(each['worst_columns'])}\n"
        )
    return said
