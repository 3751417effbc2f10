"""``privem score``: how well a model describes a file, exactly or privately."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from .. import CategoricalMixture, KMeans
from ..data import read_file
from ..data.categories import read_categories
from .console import remarks
from .failures import ExitCode, Failure, UsageError, reading_data
from .kinds import FACTS, Kind, kind_of
from .progress import WatchedRows
from .using import column_names

__all__ = ["describe_score", "score_file", "score_privately"]

EXACT = "This score is exact and not private: publishing it tells about those rows."
_PRIVATELY = (Kind.gmm, Kind.fa)
_LABELS = {
    "rows": "rows",
    "mean_log_density": "mean log-density",
    "deviation": "deviation of its noise",
    "minus_inertia": "minus inertia",
    "mean_squared_distance": "mean squared distance",
}


def score_file(
    model: Any, data: Path, target: str | None = None, header: bool | None = None
) -> dict[str, Any]:
    """How well a model describes a file, exactly: a summary fit for JSON."""
    kind = kind_of(model)
    if target is None and FACTS[kind].target:
        target = getattr(model, "target_name_in_", None)
    if FACTS[kind].target != (target is not None):
        raise UsageError(
            f"a {kind} model needs --target, the column to be explained"
            if target is None
            else f"--target is for regressions, not for a {kind} model"
        )
    with reading_data(), warnings.catch_warnings():
        # Values far outside overflow on the way to a density of zero; that is said below.
        warnings.simplefilter("ignore", RuntimeWarning)
        columns = _columns(model, data)
        if isinstance(model, CategoricalMixture):
            known = model.categories_
            table = read_categories(data, columns=columns, header=header, categories=known)[0]
            each = model.score_samples(table)
            value, count = float(np.mean(each)), len(each)
        elif target is not None:
            each = model.log_likelihood(
                read_file(data, columns, target=target, header=header), None
            )
            value, count = float(np.mean(each)), len(each)
        else:
            rows = WatchedRows(read_file(data, columns, header=header))
            value = float(model.score(rows))
            count = rows.count
    if not np.isfinite(value):
        raise Failure(
            ExitCode.DATA,
            f"{str(data)!r} holds values so far from the model that the score overflows",
        )
    summary: dict[str, Any] = {"model": str(kind), "data": str(data), "private": False}
    summary |= {"rows": count} | ({} if target is None else {"target": target})
    if isinstance(model, KMeans):
        return summary | {"minus_inertia": value, "mean_squared_distance": -value / count}
    return summary | {"mean_log_density": value}


def _columns(model: Any, data: Path) -> list[str] | None:
    """Those the model was fitted to. A .npy file has no names; a model of one knows none."""
    by_name = data.suffix != ".npy" and hasattr(model, "feature_names_in_")
    return column_names(model) if by_name else None


def score_privately(
    model: Any,
    data: Path,
    epsilon: float,
    delta: float | None,
    groups: str | None,
    header: bool | None = None,
) -> dict[str, Any]:
    """The mean log-density of a file under a budget of its own: a summary fit for JSON."""
    kind = kind_of(model)
    if kind not in _PRIVATELY:
        raise UsageError(
            f"--epsilon scores gmm and fa models; of a {kind} model there are exact scores only"
        )
    if not hasattr(model, "privacy_"):
        raise UsageError(
            "--epsilon is for models that were fitted privately: this one itself gives records away"
        )
    for name, value, most in (("epsilon", epsilon, np.inf), ("delta", delta, 1.0)):
        if value is not None and not 0 < value < most:
            raise UsageError(f"--{name} {value:g} must lie between 0 and {most:g}")
    given = {} if delta is None else {"delta": delta}
    with reading_data(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = read_file(data, _columns(model, data), groups=groups, header=header)
        score = model.private_score(rows, epsilon=epsilon, **given)
    return {
        "model": str(kind),
        "data": str(data),
        "private": True,
        "mean_log_density": score.value,
        "deviation": score.deviation,
        "limits": list(score.limits),
        "statement": str(score.privacy),
        "privacy": score.privacy.to_dict(),
        "warnings": remarks(caught),
    }


def describe_score(summary: dict[str, Any]) -> list[RenderableType]:
    """A score for people."""
    lines = [
        f"{label:<22} {summary[key]:{',' if isinstance(summary[key], int) else '.8g'}}"
        for key, label in _LABELS.items()
        if key in summary
    ]
    return ["\n".join(lines), "", Text(summary.get("statement", EXACT))]
