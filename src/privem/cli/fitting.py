"""``privem fit``: from options to an estimator, and from a fit to a summary."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import RenderableType
from sklearn.exceptions import ConvergenceWarning

from ..estimators import FactorAnalysis, GaussianMixture, KMeans
from ..report import CannotWrite
from ..sources import read_file
from .console import numbers
from .failures import reading_data
from .progress import FitProgress, WatchedRows

__all__ = ["NOT_PRIVATE", "Covariance", "Kind", "PriorKind", "Settings", "describe", "fit_file"]

NOT_PRIVATE = (
    "NOT PRIVATE: this version fits exactly, without differential privacy.\n"
    "Treat the model as you would treat the data."
)


class Kind(StrEnum):
    """Models by their short names."""

    gmm = "gmm"
    kmeans = "kmeans"
    fa = "fa"


class Covariance(StrEnum):
    """Shapes of a mixture's covariances."""

    full = "full"
    tied = "tied"
    diag = "diag"
    spherical = "spherical"


class PriorKind(StrEnum):
    """Priors of a mixture."""

    map = "map"


@dataclass(frozen=True)
class Settings:
    """The options of ``privem fit`` that say what to fit; ``None`` is the model's own default."""

    kind: Kind
    components: int
    covariance: Covariance | None = None
    prior: PriorKind | None = None
    max_iter: int | None = None
    tol: float | None = None
    n_init: int | None = None
    seed: int | None = None
    n_jobs: int | None = None

    def estimator(self) -> Any:
        """The estimator, its parameters checked."""
        count = "n_clusters" if self.kind is Kind.kmeans else "n_components"
        given: dict[str, Any] = {count: self.components, "n_jobs": self.n_jobs, "epsilon": None}
        options = {
            "covariance_type": (self.covariance, "--covariance", (Kind.gmm,)),
            "prior": (self.prior, "--prior", (Kind.gmm,)),
            "n_init": (self.n_init, "--n-init", (Kind.gmm, Kind.kmeans)),
            "max_iter": (self.max_iter, "--max-iter", tuple(Kind)),
            "tol": (self.tol, "--tol", tuple(Kind)),
            "random_state": (self.seed, "--seed", tuple(Kind)),
        }
        for name, (value, option, kinds) in options.items():
            if value is None:
                continue
            if self.kind not in kinds:
                words = " and ".join(kinds)
                raise click.UsageError(f"{option} is for {words}, not for --model {self.kind}")
            given[name] = str(value) if isinstance(value, StrEnum) else value
        if self.n_jobs == 0:
            raise click.UsageError("--n-jobs must not be 0; -1 means every core")
        classes = {Kind.gmm: GaussianMixture, Kind.kmeans: KMeans, Kind.fa: FactorAnalysis}
        estimator: Any = classes[self.kind](**given)
        try:
            estimator._check_parameters()
        except (TypeError, ValueError) as error:
            raise click.UsageError(str(error)) from error
        return estimator


def fit_file(
    settings: Settings,
    data: Path,
    columns: Sequence[str] | None,
    weight: str | None,
    destination: Path,
    quiet: bool,
) -> tuple[Any, dict[str, Any]]:
    """Fit a file and save the model; the estimator and a summary fit for JSON."""
    estimator = settings.estimator()
    start = time.perf_counter()
    with (
        reading_data(),
        warnings.catch_warnings(record=True) as caught,
        FitProgress(estimator.max_iter, quiet) as progress,
    ):
        warnings.simplefilter("always")
        rows = WatchedRows(read_file(data, columns=columns, weight=weight), progress.seen)
        estimator._watch = progress.watch
        estimator.fit(rows)
        del estimator._watch
    seconds = time.perf_counter() - start
    try:
        estimator.save(destination)
    except OSError as error:
        raise CannotWrite(destination, error.strerror or str(error)) from error
    stopped = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    summary: dict[str, Any] = {
        "model": str(settings.kind),
        "data": str(data),
        "output": str(destination),
        "rows": rows.count,
        "total_weight": rows.total_weight,
        "columns": estimator._names(),
        "components": settings.components,
        "private": False,
        "epsilon": None,
        "iterations": int(estimator.n_iter_),
        "converged": not stopped,
        "seconds": round(seconds, 6),
        **_results(estimator, rows.total_weight),
        "warnings": list(dict.fromkeys(str(warning.message) for warning in caught)),
    }
    return estimator, summary


def _results(estimator: Any, weight: float) -> dict[str, Any]:
    match estimator:
        case GaussianMixture():
            bound = "log_likelihood" if estimator.prior is None else "log_posterior"
            return {
                "covariance": estimator.covariance_type,
                "prior": estimator.prior,
                f"mean_{bound}": float(estimator.lower_bound_),
                "parameters": _lists(estimator, "weights_", "means_", "covariances_"),
            }
        case KMeans():
            return {
                "inertia": estimator.inertia_,
                "mean_squared_distance": estimator.inertia_ / weight,
                "shares": (
                    np.bincount(estimator.labels_, minlength=estimator.n_clusters)
                    / len(estimator.labels_)
                ).tolist(),
                "parameters": _lists(estimator, "cluster_centers_"),
            }
    return {
        "mean_log_likelihood": estimator.loglike_[-1] / weight,
        "parameters": _lists(estimator, "mean_", "components_", "noise_variance_"),
    }


def _lists(estimator: Any, *names: str) -> dict[str, Any]:
    return {name.rstrip("_"): getattr(estimator, name).tolist() for name in names}


def describe(summary: dict[str, Any], output: Path) -> list[RenderableType]:
    """A summary for people."""
    columns, parameters = summary["columns"], summary["parameters"]
    count = summary["components"]
    match summary["model"]:
        case "gmm":
            what = f"Gaussian mixture, {count} component(s), {summary['covariance']} covariance"
            labels = [str(k) for k in range(count)]
            values = np.column_stack([parameters["weights"], parameters["means"]])
            table = numbers("k", labels, ["weight", *columns], values.tolist())
            caption = "Weight and mean of each component:"
        case "kmeans":
            what = f"k-means, {count} cluster(s)"
            labels = [str(k) for k in range(count)]
            values = np.column_stack([summary["shares"], parameters["cluster_centers"]])
            table = numbers("k", labels, ["share", *columns], values.tolist())
            caption = "Share of the rows and centre of each cluster:"
        case _:
            factors = len(parameters["components"])
            what = f"Factor analysis, {factors} factor(s)"
            labels = ["mean", *(f"factor {k}" for k in range(factors)), "noise sd"]
            noise = np.sqrt(parameters["noise_variance"])
            values = np.vstack([parameters["mean"], *parameters["components"], noise])
            table = numbers("", labels, columns, values.tolist())
            caption = "Means, loadings and noise of each column:"
    word = "converged" if summary["converged"] else "NOT converged"
    lines = [
        f"{what}, of {summary['data']}",
        f"  rows                   {summary['rows']:,}",
        f"  columns                {len(columns)}",
        *(
            f"  {key.replace('_', ' '):<22} {summary[key]:.6g}"
            for key in _FIGURES
            if key in summary
        ),
        f"  iterations             {summary['iterations']} ({word})",
        f"  time                   {summary['seconds']:.2f} s",
        "",
        caption,
        "",
    ]
    return ["\n".join(lines), *table, "", f"{NOT_PRIVATE}\nSaved to {output}"]


_FIGURES = (
    "mean_log_likelihood",
    "mean_log_posterior",
    "inertia",
    "mean_squared_distance",
)
