"""``privem fit``: from options to an estimator, and from a fit to a summary."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
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

__all__ = [
    "NOT_PRIVATE",
    "Covariance",
    "Kind",
    "Neighbours",
    "PriorKind",
    "Settings",
    "describe",
    "fit_file",
]

NOT_PRIVATE = (
    "NOT PRIVATE: an exact fit, without differential privacy (see --epsilon).\n"
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


class Neighbours(StrEnum):
    """Which change privacy hides."""

    add_remove = "add-remove"
    replace_one = "replace-one"


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
    epsilon: float | None = None
    delta: float = 1e-6
    bounds: tuple[str, ...] = ()
    neighbours: Neighbours = Neighbours.add_remove
    n_iter: int | None = None

    def estimator(self) -> Any:
        """The estimator, its parameters checked."""
        count = "n_clusters" if self.kind is Kind.kmeans else "n_components"
        given: dict[str, Any] = {
            count: self.components,
            "n_jobs": self.n_jobs,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": str(self.neighbours),
        }
        if self.epsilon is None and (self.bounds or self.n_iter):
            raise click.UsageError("--bound and --n-iter are for private fits: give --epsilon")
        options = {
            "n_iter": (self.n_iter, "--n-iter", (Kind.gmm, Kind.kmeans)),
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
        self.limits([])
        classes = {Kind.gmm: GaussianMixture, Kind.kmeans: KMeans, Kind.fa: FactorAnalysis}
        estimator: Any = classes[self.kind](**given)
        try:
            estimator._check_parameters()
        except (TypeError, ValueError) as error:
            raise click.UsageError(str(error)) from error
        return estimator

    def limits(self, columns: Sequence[str]) -> Any:
        """``bounds=`` for these columns, or for none of them a check of the options' form."""
        found: dict[str, tuple[float, float]] = {}
        for text in self.bounds:
            column, equals, values = text.rpartition("=")
            try:
                low, high = (float(value) for value in values.split(":"))
            except ValueError:
                equals = ""
            if not equals or column in found or not low < high:
                raise click.UsageError(
                    f"--bound {text!r} is not COLUMN=LOW:HIGH with LOW below HIGH, once per column"
                )
            found[column] = (low, high)
        if not found or not columns:
            return None
        if set(found) != set(columns):
            odd = sorted(set(found) ^ set(columns))
            raise click.UsageError(
                f"--bound is for every column fitted or for none; look at {', '.join(odd)}"
            )
        return tuple(zip(*(found[name] for name in columns), strict=True))


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
        opened: Any = read_file(data, columns=columns, weight=weight)
        if settings.epsilon is not None:
            # A private fit maps bad values by a fixed rule: an error would be a release.
            opened = replace(opened, check=False)
        # Only an exact fit counts its rows, on the screen or in the summary, or minds having none.
        rows: Any = opened if settings.epsilon is not None else WatchedRows(opened, progress.seen)
        if settings.bounds:
            estimator.bounds = settings.limits(rows.names or [])
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
        "columns": estimator._names(),
        "components": settings.components,
        "private": settings.epsilon is not None,
        "epsilon": settings.epsilon,
        "iterations": int(estimator.n_iter_),
        "warnings": list(dict.fromkeys(str(warning.message) for warning in caught)),
    }
    if settings.epsilon is not None:
        # How many rows there are, how long it took, what else was seen: nobody paid for it.
        return estimator, summary | {
            "privacy": estimator.privacy_.to_dict(),
            "statement": str(estimator.privacy_),
            **_public_results(estimator),
        }
    return estimator, summary | {
        "rows": rows.count,
        "total_weight": rows.total_weight,
        "converged": not stopped,
        "seconds": round(seconds, 6),
        **_results(estimator, rows.total_weight),
    }


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


def _public_results(estimator: Any) -> dict[str, Any]:
    match estimator:
        case GaussianMixture():
            return {
                "covariance": estimator.covariance_type,
                "prior": estimator.prior,
                "structure": estimator.structure_,
                "parameters": _lists(estimator, "weights_", "means_", "covariances_"),
            }
        case KMeans():
            return {"parameters": _lists(estimator, "cluster_centers_")}
    return {"parameters": _lists(estimator, "mean_", "components_", "noise_variance_")}


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
            centres = parameters["cluster_centers"]
            caption = "Centre of each cluster:"
            table = numbers("k", labels, columns, centres)
            if "shares" in summary:
                values = np.column_stack([summary["shares"], centres])
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
    word = ""
    if "converged" in summary:
        word = " (converged)" if summary["converged"] else " (NOT converged)"
    lines = [
        f"{what}, of {summary['data']}",
        *([f"  rows                   {summary['rows']:,}"] if "rows" in summary else []),
        f"  columns                {len(columns)}",
        *(
            f"  {key.replace('_', ' '):<22} {summary[key]:.6g}"
            for key in _FIGURES
            if key in summary
        ),
        f"  iterations             {summary['iterations']}{word}",
        *([f"  time                   {summary['seconds']:.2f} s"] if "seconds" in summary else []),
        "",
        caption,
        "",
    ]
    promise = summary.get("statement", NOT_PRIVATE)
    return ["\n".join(lines), *table, "", f"{promise}\nSaved to {output}"]


_FIGURES = (
    "mean_log_likelihood",
    "mean_log_posterior",
    "inertia",
    "mean_squared_distance",
)
